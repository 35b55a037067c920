"""The pages in Chromium: nothing of a document runs or loads, and people can use every view."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.explorer.shop import make_shop
from tests.explorer.test_activity_page import EVE, read, recorded
from tests.transports.http.auth.test_page_sign_in import cookie, sign_in
from tests.transports.program import Program, running
from tests.waiting import PATIENCE_S

sync_api = pytest.importorskip("playwright.sync_api", reason="not installed: Playwright")
from tests.explorer.browser import CHROMIUM, Window, launched  # noqa: E402

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="not installed: Chromium"),
]

PHONE = {"viewport": {"width": 390, "height": 800}}
ORDERS = "/explore/sqlite:%2F%2Fshop/orders/~rows"
CODE = "/explore/file:%2F%2F/project/main.py"


@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    with sync_api.sync_playwright() as playwright, launched(playwright) as started:
        yield started


@pytest.fixture
def opened(browser: Any) -> Generator[Callable[..., Window]]:
    """Open windows, in which nothing may have misbehaved in the end."""
    windows: list[Window] = []

    def open_window(program: Program, **options: Any) -> Window:
        windows.append(Window(browser, program, **options))
        return windows[-1]

    yield open_window
    for window in windows:
        assert window.misbehaviour == []
        window.context.close()


def test_without_scripts_forms_and_links_lead_on(
    program: Program, opened: Callable[..., Window]
) -> None:
    page = opened(program, java_script_enabled=False).open(ORDERS)
    page.get_by_role("link", name="Next page").click()
    assert page.locator("tbody tr").first.get_attribute("data-key") == "sqlite://shop/orders/51"
    page.get_by_label("Column").select_option("status")
    page.get_by_label("Value").fill("paid")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("tbody tr").count() == 40
    page.goto("/")
    page.get_by_label("Search").fill("litres")
    page.get_by_label("Search").press("Enter")
    page.get_by_role("link", name="main.py").click()
    assert page.get_by_role("heading", name="main.py").is_visible()


@pytest.mark.parametrize("path", ["/", "/explore/file:%2F%2F/project", ORDERS, "/explore/tools"])
def test_the_keyboard_reaches_all_controls(
    program: Program, opened: Callable[..., Window], path: str
) -> None:
    page = opened(program).open(path)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "query"
    page.evaluate("document.activeElement.blur()")
    page.evaluate(
        """() => { window.left = new Set([...document.querySelectorAll(
          'a[href], button, input:not([type=hidden]), select, summary')].filter(
          (each) => each.checkVisibility())); window.all = window.left.size;
        document.addEventListener('focusin', (event) => window.left.delete(event.target)); }"""
    )
    assert page.evaluate("window.all") > 5
    for _ in range(page.evaluate("window.all") + 20):
        page.keyboard.press("Tab")
    assert page.evaluate("[...window.left].map((each) => each.outerHTML)") == []


def test_a_search_shows_results_on_any_page_as_one_types(
    program: Program, opened: Callable[..., Window]
) -> None:
    page = opened(program).open(CODE)
    page.keyboard.press("/")
    page.keyboard.type("boil")
    results = page.get_by_role("region", name="Results")
    results.get_by_text("def boil(litres):").wait_for()
    assert "match" in page.locator("#said").inner_text()
    assert page.evaluate("document.activeElement.name") == "query"
    page.get_by_label("Search", exact=True).fill("")
    results.wait_for(state="hidden")
    assert page.get_by_role("heading", name="main.py").is_visible()


def test_of_searches_while_typing_only_the_last_is_shown(
    program: Program, opened: Callable[..., Window]
) -> None:
    page = opened(program).open("/explore/search?query=litres")
    page.route("**/search?*query=boil", lambda route: None)  # is never answered
    field = page.get_by_label("Search", exact=True)
    with page.expect_request("**/search?*query=boil") as slow:
        field.fill("boil")
    with page.expect_event("requestfailed", lambda request: request.url == slow.value.url):
        field.fill("prices")
    page.locator("main").get_by_role("link", name="docs/prices.md").wait_for()
    assert page.url.endswith("/explore/search?query=prices")
    page.reload()
    assert field.input_value() == "prices"


def test_values_for_a_prompt_are_suggested_as_one_types(
    program: Program, opened: Callable[..., Window]
) -> None:
    page = opened(program).open("/explore/prompts/review")
    page.get_by_label("file").fill("docs/pri")
    page.locator("datalist option[value='docs/prices.md']").wait_for(state="attached")


def test_names_of_a_folder_are_filtered_as_one_types(
    program: Program, opened: Callable[..., Window]
) -> None:
    page = opened(program).open("/explore/file:%2F%2F/project/many")
    rows = page.locator("tbody tr:visible")
    before = rows.count()
    page.get_by_label("Filter names").fill("11.")
    assert 0 < rows.count() < before
    assert all("11." in text for text in rows.all_inner_texts())


def _set_status(place: Path, order: int, status: str) -> None:
    with sqlite3.connect(place / "shop.db") as database:
        database.execute("update orders set status = ? where id = ?", (status, order))
    database.close()


def _marked(page: Any, order: int, status: str) -> None:
    """Wait until a row is marked as changed."""
    row = page.locator(f"tr.changed[data-key$='/orders/{order}']", has_text=status)
    row.wait_for(timeout=PATIENCE_S * 1000)


def _live(page: Any) -> Any:
    page.locator(".live[data-state=on]").wait_for(timeout=PATIENCE_S * 1000)
    return page


def test_a_changed_row_is_marked_and_a_pause_keeps_the_page(
    tmp_path: Path, opened: Callable[..., Window]
) -> None:
    with running(make_shop(tmp_path)) as program:
        paused, witness = (_live(opened(program).open(ORDERS)) for _ in range(2))
        _set_status(tmp_path, 3, "lost")
        _marked(paused, 3, "lost")
        paused.get_by_role("button", name="Pause").click()
        _set_status(tmp_path, 5, "gone")
        _marked(witness, 5, "gone")
        assert paused.get_by_text("gone").count() == 0
        paused.get_by_role("button", name="Go on").click()
        _marked(paused, 5, "gone")


def test_a_page_connects_again_to_a_server_that_comes_back(
    tmp_path: Path, opened: Callable[..., Window]
) -> None:
    manifest = make_shop(tmp_path)
    with running(manifest) as program:
        window = opened(program)
        page, port = _live(window.open(ORDERS)), program.port
        program.end(15)
        page.locator(".live[data-state=lost]").wait_for()
    _set_status(tmp_path, 3, "lost")
    with running(manifest, http=f"127.0.0.1:{port}"):
        _marked(page, 3, "lost")
        _set_status(tmp_path, 5, "gone")
        _marked(page, 5, "gone")


def test_requests_of_others_appear_on_the_page_of_the_activity(
    tmp_path: Path, opened: Callable[..., Window]
) -> None:
    with recorded(tmp_path) as program:
        window = opened(program)
        signed_in = sign_in(program, EVE, host=window.origin.removeprefix("http://"))
        name, _, value = cookie(signed_in).partition("=")
        window.context.add_cookies([{"name": name, "value": value, "url": window.origin}])
        page = _live(window.open("/explore/activity:%2F%2Fserver/recent"))
        read(program, "file:///docs/a.txt")
        page.locator("tbody").get_by_role("link", name="file:///docs/a.txt").wait_for()
        assert window.barriers() == []


def test_twenty_tabs_are_all_shown_and_the_last_one_is_live(
    tmp_path: Path, opened: Callable[..., Window]
) -> None:
    with running(make_shop(tmp_path)) as program:
        window = opened(program)
        tabs = [window.context.new_page() for _ in range(20)]
        for number, tab in enumerate(tabs):
            tab.bring_to_front()
            tab.goto(ORDERS if number % 2 else CODE)
            assert tab.get_by_role("heading", level=1).is_visible()
        last = _live(tabs[-1])
        _set_status(tmp_path, 3, "lost")
        _marked(last, 3, "lost")


_FOREIGN = """async (origin) => {
  const made = (tag, source) => new Promise((resolve) => {
    const element = Object.assign(document.createElement(tag), { src: origin + source });
    element.onload = () => resolve("loaded");
    element.onerror = () => resolve("refused");
    document.body.append(element);
  });
  const fetched = async (mode) => {
    try {
      return (await (await fetch(`${origin}/explore/`, { mode, credentials: "include" })).text());
    } catch { return ""; }
  };
  window.opened = window.open(`${origin}/explore/`);
  return {
    fetched: await fetched("cors") + await fetched("no-cors"),
    picture: await made("img", "/explore/raw/file:%2F%2F/project/docs/dot.svg"),
    script: await made("script", "/explore/assets/explorer.js"),
    frame: await made("iframe", "/explore/"),
  };
}"""


def _answer_as_foreign(route: Any) -> None:
    route.fulfill(body="foreign", content_type="text/html")


def test_a_foreign_page_reads_frames_posts_and_opens_nothing(
    program: Program, browser: Any
) -> None:
    context = browser.new_context()
    origin, foreign = f"http://127.0.0.1:{program.port}", "http://localhost:9/"
    context.route(f"{foreign}**", _answer_as_foreign)
    page = context.new_page()
    page.goto(foreign)
    with context.expect_page() as opened:
        found = page.evaluate(_FOREIGN, origin)
    assert (found["fetched"], found["picture"], found["script"]) == ("", "refused", "refused")
    assert opened.value.evaluate("window.opener") is None
    page.wait_for_function("window.opened.closed")  # as it looks to whoever may not touch it
    assert not any(each.url.startswith(origin) for each in page.frames)
    with page.expect_navigation() as posted:
        page.evaluate(
            """(action) => {
              const form = document.createElement("form");
              document.body.append(Object.assign(form, { action, method: "post" }));
              form.submit();
            }""",
            f"{origin}/explore/tools/list_resources",
        )
    assert posted.value.status == 403
    context.close()
