"""Hostile names, documents, rows and manifests in Chromium: they stay text on every page."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.explorer.hostile import CALCULATED, MARKDOWN, TEXTS, make_hostile
from tests.explorer.shop import Elements, fetched
from tests.transports.program import Program, running

sync_api = pytest.importorskip("playwright.sync_api", reason="not installed: Playwright")
from tests.explorer.browser import CHROMIUM, Window, launched  # noqa: E402

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="not installed: Chromium"),
    pytest.mark.guarantee("pages-show-what-clients-get"),
]

PHONE = {"width": 390, "height": 800}
EVERYTHING = " ".join(TEXTS)
SCHEMES = [each for each in TEXTS if each.startswith(("javascript:", "data:"))]
_INVISIBLE = "[\\u061c\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff\\u0085\\u001b]"
_INSPECT = """([calculated, invisible]) => {
  const found = [];
  const say = (what, each) => found.push(`${what}: ${each.outerHTML.slice(0, 300)}`);
  const own = (url) => url.origin === location.origin && url.pathname.startsWith("/explore/");
  const inDocument = (each) => each.tagName === "A" && each.closest("article") !== null;
  for (const each of document.querySelectorAll("*")) {
    for (const { name, value } of each.attributes) {
      if (/^(evil|on.*|style|srcdoc|srcset|formaction|ping|target)$/.test(name)) say(name, each);
      if (!/^(href|src|action)$/.test(name)) continue;
      if (value.startsWith("#")) continue;
      const url = new URL(value, location.href);
      const leads = inDocument(each) && /^(https?|mailto):$/.test(url.protocol);
      if (!own(url) && !leads) say("leads away", each);
    }
  }
  const foreign = "base,embed,frame,iframe,math,meta[http-equiv],object,style,svg,template";
  for (const each of document.querySelectorAll(foreign)) say("foreign", each);
  const parts = (parent) => [...parent.children].map((each) => each.tagName).join();
  const isBody = /^A,HEADER,(SECTION,)?MAIN,FOOTER$/.test(parts(document.body));
  if (!isBody) say("broken out", document.body);
  const isHead = /^(META|TITLE|LINK|SCRIPT|,)*$/.test(parts(document.head));
  if (!isHead) say("in the head", document.head);
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`twice: ${id}`);
  for (const table of document.querySelectorAll("table.rows")) {
    const cells = [...table.rows].map((each) => each.cells.length);
    if (new Set(cells).size > 1) say("rows of several lengths", table);
  }
  // Fields keep what they send again.
  const text = document.documentElement.outerHTML.replace(/ value="[^"]*"/g, "");
  if (text.includes(calculated)) found.push("a template ran");
  const hidden = text.match(new RegExp(`.{0,99}${invisible}`));
  if (hidden) found.push(`invisible: ${JSON.stringify(hidden[0])}`);
  return found;
}"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def hostile(place: Path) -> Generator[Program]:
    with running(make_hostile(place)) as program:
        yield program


@pytest.fixture(scope="module")
def opened(hostile: Program) -> Generator[Window]:
    with sync_api.sync_playwright() as playwright, launched(playwright) as browser:
        yield Window(browser, hostile, viewport=PHONE)


def problems(window: Window) -> list[str]:
    """Return where text of others became more than text, and what a phone has no room for."""
    found: list[str] = window.page.evaluate(_INSPECT, [CALCULATED, _INVISIBLE])
    if window.is_wider_than_the_window():
        found.append("wider than the window")
    misbehaviour, window.misbehaviour = window.misbehaviour, []
    return [f"{each} on {window.page.url}" for each in (*misbehaviour, *found)]


def _kind(path: str) -> str:
    """Return what links have in common that lead to pages of one shape."""
    address, _, query = path.partition("?")
    found = re.match("/explore/(model|hidden|source|raw|tools|prompts)/", address)
    parameters = ",".join(sorted(re.findall(r"(?:^|&)(\w+)", query)))
    shape = f"{address.count('/')} {re.findall('/~[a-z]+', address)} {parameters}"
    if found is None:
        # Tables and the files of the folder have pages of their own; rows and members are alike.
        alike = re.match("/explore/(archive:|sqlite:[^/]*/[^/]*/)", address)
        return f"{alike[1][:7]} {shape}" if alike else shape if query else address
    suffix = "".join(re.findall("[.][a-z]+$", address)) if found[1] in ("source", "raw") else ""
    return f"{found[1]} {shape} {suffix}"


def test_nothing_of_theirs_becomes_more_than_text(opened: Window) -> None:
    searches = [
        f"/explore/search?{urlencode({'query': each, 'uri': uri})}"
        for each, uri in (
            ("evil", ""),
            (EVERYTHING, EVERYTHING),
            *((each,) * 2 for each in SCHEMES),
        )
    ]
    found: list[str] = []
    count = 0
    for _ in opened.crawl(("/", *searches), _kind):
        found += problems(opened)
        count += 1
    if found:
        pytest.fail("\n".join(found), pytrace=False)
    assert count > 80


@pytest.mark.parametrize(
    ("path", "field", "button"),
    [
        ("sqlite:%2F%2Fdata/hostile", "Value", "Filter"),
        ("sqlite:%2F%2Fdata/~query", "given", "Show"),
        ("tools/search_resources", "query (required)", "Call"),
        ("prompts/p", "a (required)", "Get"),
    ],
)
def test_forms_show_what_is_sent_as_text(
    opened: Window, path: str, field: str, button: str
) -> None:
    page = opened.open(f"/explore/{path}")
    page.get_by_label(field, exact=True).fill(EVERYTHING)
    with page.expect_navigation():
        page.locator("main").get_by_role("button", name=button).click()
    assert problems(opened) == []


def test_a_search_while_typing_shows_text(opened: Window) -> None:
    page = opened.open("/")
    page.get_by_label("Search").press_sequentially("evil")
    page.locator("#results li").first.wait_for()
    assert problems(opened) == []


def test_every_link_of_a_table_with_hostile_columns_leads_to_a_page(hostile: Program) -> None:
    seen: set[str] = set()
    for path in ("", "/~rows?columns=id", "/~rows?sort=id"):
        seen |= set(Elements(fetched(hostile, f"/explore/sqlite:%2F%2Fdata/hostile{path}")).links())
    links = [each for each in seen if each.startswith("/")]
    assert len(links) > 60
    assert {
        each: status for each in links if (status := fetched(hostile, each).status) != 200
    } == {}


def test_a_live_page_shows_hostile_changes_as_text(opened: Window, place: Path) -> None:
    page = opened.open("/explore/file:%2F%2F/project/live.md")
    page.locator(".live[data-state=on]").wait_for()
    (place / "project" / "live.md").write_text(MARKDOWN, "utf-8")
    page.locator(".live", has_text="Changed").wait_for()
    assert page.locator("article", has_text="Your session ended").is_visible()
    assert problems(opened) == []
