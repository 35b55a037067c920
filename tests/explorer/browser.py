"""Windows of Chromium at the pages of a program, which keep what must not happen in them."""

from __future__ import annotations

import shutil
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Dialog, Error, Page, Playwright, Response

from tests.clients.typescript import MODULES
from tests.transports.program import Program
from tests.waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium")
AXE = MODULES / "axe-core" / "axe.min.js"

_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`violation of ${event.violatedDirective} by ${event.blockedURI}`));
"""
_CHECK = """async (rules) => {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const runOnly = rules.length ? rules : tags;
  const found = await axe.run(document, { runOnly, resultTypes: ["violations"] });
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
        self.context.on("response", self._keep_failure)
        self.context.on("weberror", lambda error: self._keep(f"error {error.error}"))
        self.context.on("console", lambda message: self._keep(f"console {message.text}"))
        self.context.route(
            self._is_foreign, lambda route: (self._keep(route.request.url), route.abort())
        )
        self.page: Page = self.context.new_page()

    def _dismiss(self, dialog: Dialog) -> None:
        self._keep("dialog")
        dialog.dismiss()

    def _keep_failure(self, response: Response) -> None:
        if response.status >= 500:
            self._keep(f"{response.status} of {response.url}")

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
        """Return the paths of all links to this server, and whether a document has them."""
        found: list[list[Any]] = self.page.evaluate(
            """[...document.querySelectorAll("a[href^='/']")].map(
              (each) => [each.getAttribute("href"), each.closest("article") !== null])"""
        )
        return [(path.partition("#")[0], is_of_document) for path, is_of_document in found]

    def crawl(
        self, start: Sequence[str], kind_of: Callable[[str], str], of_a_kind: int = 1
    ) -> Generator[Page]:
        """Open the pages that links lead to, breadth first, and as many of each kind.

        A link of a document may lead nowhere, any other leads to a page.
        """
        kinds = Counter[str]()
        waiting = deque((path, "", False) for path in start)
        seen = {*start}
        while waiting:
            path, source, is_of_document = waiting.popleft()
            if "/explore/raw/" in path:
                self.download(path)
                continue
            answer = self.page.goto(path)
            assert answer is not None
            if source and answer.status != 200 and not is_of_document:
                self.misbehaviour.append(f"{answer.status} of {path}, linked at {source}")
            yield self.page
            for following, is_of_document in self.links():
                kind = kind_of(following)
                if following not in seen and kinds[kind] < of_a_kind:
                    seen.add(following)
                    kinds[kind] += 1
                    waiting.append((following, path, is_of_document))

    def is_wider_than_the_window(self) -> bool:
        """Return whether the page itself scrolls sideways."""
        return bool(
            self.page.evaluate(
                "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )

    def barriers(self, *rules: str) -> list[str]:
        """Return what axe-core finds at WCAG 2.2 AA, or by some rules, each with its element."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(_axe())
        found: list[str] = self.page.evaluate(_CHECK, rules)
        return found
