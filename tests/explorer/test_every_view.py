"""Every view of the examples in Chromium: for eyes, keyboards, phones, and without scripts."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Generator
from typing import Any

import pytest
import yaml

from tests.transports.program import ROOT, Program, running

sync_api = pytest.importorskip("playwright.sync_api", reason="not installed: Playwright")
from tests.explorer.browser import CHROMIUM, Window, launched  # noqa: E402

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(CHROMIUM is None, reason="not installed: Chromium"),
]

START = (
    "/",
    *(
        f"/explore/{path}"
        for path in (
            "search?query=tea&uri=file:%2F%2F/project/docs",
            "file:%2F%2F/project/src/teashop/orders.py",
            "file:%2F%2F/project/contracts/supplier.md",
            "file:%2F%2F/project/nothing",
        )
    ),
)
DESKTOP: Any = {"width": 1100, "height": 800}
PHONE: Any = {"width": 390, "height": 800}
_CONTROLS = """() => [...document.querySelectorAll(
  "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
)].filter((each) => each.checkVisibility())"""
_FOLLOW = f"""() => {{
  window.unreached = new Set(({_CONTROLS})());
  window.unseen = [];
  document.addEventListener("focusin", ({{ target }}) => {{
    window.unreached.delete(target);
    const {{ outlineStyle, outlineWidth }} = getComputedStyle(target);
    const {{ left, right }} = target.getBoundingClientRect();
    const isSeen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    if (!isSeen || right <= 0 || left >= innerWidth) window.unseen.push(target.outerHTML);
  }});
  document.activeElement?.blur();
  return window.unreached.size;
}}"""
_READABLE = """() => {
  const main = document.querySelector("main").cloneNode(true);
  // Conveniences that only scripts give, and what they say of the connection.
  main.querySelectorAll(".live, .filter, [data-copy]").forEach((each) => each.remove());
  return main.textContent.replace(/\\s+/g, " ");
}"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Generator[Program]:
    """Three examples as one server."""
    place = tmp_path_factory.mktemp("examples")
    manifest: dict[str, Any] = {}
    for name in ("project", "documents", "shop"):
        folder = ROOT / "examples" / name
        shutil.copytree(folder, place / name, ignore=shutil.ignore_patterns(".cache"))
        part = yaml.safe_load((folder / "mcp-resources.yaml").read_text("utf-8"))
        for root in part.get("roots", {}).values():
            root |= {"path": f"{name}/{root['path']}"}
        manifest |= {**part, "roots": manifest.get("roots", {}) | part.get("roots", {})}
    subprocess.run(["python3", place / "shop/make.py"], check=True)
    manifest["databases"]["shop"]["url"] = "sqlite:///shop/shop.db"
    file = place / "mcp-resources.yaml"
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    with running(file) as started:
        yield started


def _kind(path: str) -> str:
    """Return what links have in common that lead to views of one kind."""
    address, _, query = path.partition("?")
    parameters = re.sub(r"where\.\w+", "where", ",".join(re.findall(r"(?:^|&)([\w.]+)", query)))
    found = re.fullmatch("/explore/(?:([a-z]+)/)?(?:([a-z]+):[^/]*)?(.*)", address)
    view, scheme, names = found.groups() if found else ("", "", address)
    depth = names.count("/")
    if not view and depth <= (2 if scheme == "file" else 1):
        return path  # mounts and what is in them
    shape = re.findall(r"/~\w+|\.\w+\Z", names)
    return f"{view} {scheme} {bool(shape)}" if view else f"{scheme} {depth} {shape} {parameters}"


class Views:
    """What is wrong with one view of each kind, by how they were looked at."""

    def __init__(self, window: Window, plain: Window) -> None:
        self._window = window
        self._plain = plain
        self.count = 0
        self.problems = dict[str, list[str]]()

    def look(self) -> None:
        for page in self._window.crawl(START, _kind):
            self.count += 1
            for name, look in LOOKS.items():
                for problem in look(self._window, self._plain):
                    self.problems.setdefault(name, []).append(f"{problem} on {page.url}")


def _as_desktop(window: Window, _: Window) -> list[str]:
    return window.barriers()


def _in_the_dark(window: Window, _: Window) -> list[str]:
    window.page.emulate_media(color_scheme="dark")
    try:
        return window.barriers("color-contrast")
    finally:
        window.page.emulate_media(color_scheme="light")


def _on_a_phone(window: Window, _: Window) -> list[str]:
    window.page.set_viewport_size(PHONE)
    try:
        wide = ["wider than the window"] if window.is_wider_than_the_window() else []
        return wide + window.barriers()
    finally:
        window.page.set_viewport_size(DESKTOP)


def _by_keyboard(window: Window, _: Window) -> list[str]:
    page = window.page
    count: int = page.evaluate(_FOLLOW)
    for _tab in range(count + 1):
        page.keyboard.press("Tab")
    found: list[list[str]] = page.evaluate(
        "[[...window.unreached].map((each) => each.outerHTML), window.unseen]"
    )
    return [
        f"{what}: {each:.200}"
        for what, some in zip(("not reached", "focus not seen"), found, strict=True)
        for each in some
    ]


def _without_scripts(window: Window, plain: Window) -> list[str]:
    read = written = ""
    for _ in range(4):
        plain.page.goto(window.page.url)
        read, written = (each.page.evaluate(_READABLE) for each in (window, plain))
        if read == written:
            return []
        window.page.reload()  # a count may have taken too long for one of them
    return [f"{written!r:.2000} instead of {read!r:.2000}"]


LOOKS = {
    "light": _as_desktop,
    "dark": _in_the_dark,
    "phone": _on_a_phone,
    "keyboard": _by_keyboard,
    "no scripts": _without_scripts,
}


@pytest.fixture(scope="module")
def views(program: Program) -> Generator[Views]:
    """All views, each opened once; nothing in them misbehaved."""
    with sync_api.sync_playwright() as playwright, launched(playwright) as browser:
        window = Window(browser, program, viewport=DESKTOP)
        plain = Window(browser, program, viewport=DESKTOP, java_script_enabled=False)
        views = Views(window, plain)
        views.look()
        assert window.misbehaviour + plain.misbehaviour == []
        yield views


@pytest.mark.parametrize("look", [*LOOKS])
def test_everybody_can_use_every_view(views: Views, look: str) -> None:
    assert views.count > 40
    if found := views.problems.get(look):
        pytest.fail("\n".join(found), pytrace=False)
