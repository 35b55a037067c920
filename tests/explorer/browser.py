"""Windows of Chromium at the pages of a program, which keep what must not happen in them."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Dialog, Error, Page, Playwright

from tests.clients.typescript import MODULES
from tests.transports.program import Program
from tests.waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium")
AXE = MODULES / "axe-core" / "axe.min.js"

_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`violation of ${event.violatedDirective} by ${event.blockedURI}`));
"""
_CHECK = """async () => {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const found = await axe.run(document, { runOnly: tags, resultTypes: ["violations"] });
  return found.violations.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html}`));
}"""
_EXPECTED = (
    "Failed to load resource: the server responded with a status of 4",
    "Failed to load resource: net::ERR_",
    "because the document's frame is sandboxed",
    "the following Content Security Policy directive 'default-src 'none''",
)
"""A document's picture may be missing, servers end, and an SVG that is opened alone is confined."""


@contextmanager
def launched(playwright: Playwright) -> Generator[Browser]:
    """Run Chromium, as this user, who may be root."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    try:
        yield browser
    finally:
        browser.close()


@cache
def _axe() -> str:
    return AXE.read_text("utf-8")


class Window:
    """A browser's window at one program: nothing foreign is loaded, and all misbehaviour kept."""

    def __init__(self, browser: Browser, program: Program, **options: Any) -> None:
        self.origin = f"http://127.0.0.1:{program.port}"
        self.context: BrowserContext = browser.new_context(base_url=self.origin, **options)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.misbehaviour: list[str] = []
        """Dialogs, messages of scripts, errors, violations of the policy and foreign requests."""
        self.context.add_init_script(_VIOLATIONS)
        self.context.on("dialog", self._dismiss)
        self.context.on("weberror", lambda error: self._keep(f"error {error.error}"))
        self.context.on("console", lambda message: self._keep(f"console {message.text}"))
        self.context.route(
            self._is_foreign, lambda route: (self._keep(route.request.url), route.abort())
        )
        self.page: Page = self.context.new_page()

    def _dismiss(self, dialog: Dialog) -> None:
        self._keep("dialog")
        dialog.dismiss()

    def _is_foreign(self, url: str) -> bool:
        return not url.startswith(f"{self.origin}/")

    def _keep(self, what: str) -> None:
        if not any(each in what for each in _EXPECTED):
            self.misbehaviour.append(f"{what} at {self.page.url}")

    def open(self, path: str) -> Page:
        """Open a page of the explorer in the first tab."""
        answer = self.page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        return self.page

    def download(self, path: str) -> None:
        """Ask for something that a browser may refuse to show."""
        with suppress(Error):
            self.page.goto(path)

    def links(self) -> list[tuple[str, bool]]:
        """Return the paths of all own links of the page, and whether they are downloads."""
        found: list[list[Any]] = self.page.evaluate(
            """[...document.querySelectorAll("a[href^='/']:not(article a)")].map(
              (each) => [each.getAttribute("href"), each.hasAttribute("download")])"""
        )
        return [(path.partition("#")[0], is_download) for path, is_download in found]

    def crawl(self, start: str = "/", of_a_kind: int = 2) -> Generator[Page]:
        """Open every page that links lead to; of those that differ in numbers or order, a few."""
        kinds = Counter[str]()
        waiting, seen = [start], {start}
        while waiting:
            answer = self.page.goto(waiting.pop(0))
            if answer is None or answer.status != 200:
                continue  # a collection may list what cannot be read
            yield self.page
            for path, is_download in self.links():
                kind = re.sub(r"[0-9]+|(sort|after|cursor|where[^=]*)=[^&]*", "", path)
                if path in seen or kinds[kind] >= of_a_kind:
                    continue
                seen.add(path)
                kinds[kind] += 1
                if is_download or "/explore/raw/" in path:
                    self.download(path)
                else:
                    waiting.append(path)

    def is_wider_than_the_window(self) -> bool:
        """Return whether the page itself scrolls sideways."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )

    def barriers(self) -> list[str]:
        """Return what axe-core finds at WCAG 2.2 AA, each with its element."""
        self.page.evaluate(_axe())
        found: list[str] = self.page.evaluate(_CHECK)
        return found
