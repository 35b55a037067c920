"""What the style sheet in an HTML page hides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_MAX_CHARACTERS: Final = 1_000_000
_MAX_SELECTORS: Final = 200
_TAG = re.compile(r"<(/?)style\b[^>]{0,300}>", re.IGNORECASE)
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|<!--|-->")
_BRACE = re.compile(r"([{}])")
_HIDES = re.compile(r"\b(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b")
_SHOWS = re.compile(r"\b(?:display\s*:(?!\s*none)|visibility\s*:\s*visible)")
_NAME = re.compile(r"[.#]-?[a-z_][\w-]{0,100}")


def hidden_selectors(html: str) -> Sequence[str]:
    """Return the classes and ids that a page hides, as selectors.

    One that another rule shows again is left out: a menu or a tab that opens is text.
    """
    hidden: dict[str, None] = {}
    shown: set[str] = set()
    for selectors, body, is_conditional in _rules(_COMMENT.sub("", "\n".join(_sheets(html)))):
        lower = body.lower()
        if _SHOWS.search(lower):
            shown.update(_NAME.findall(selectors.lower()))
        elif not is_conditional and _HIDES.search(lower):
            for selector in map(str.strip, selectors.split(",")):
                if _NAME.fullmatch(selector.lower()):
                    hidden[selector] = None
    return [each for each in hidden if each.lower() not in shown][:_MAX_SELECTORS]


def _sheets(html: str) -> Iterator[str]:
    begin, left = 0, _MAX_CHARACTERS
    for tag in _TAG.finditer(html):
        if not tag[1]:
            begin = begin or tag.end()
        elif begin:
            yield html[begin : min(tag.start(), begin + left)]
            left -= tag.start() - begin
            begin = 0
        if left <= 0:
            return


def _rules(css: str) -> Iterator[tuple[str, str, bool]]:
    """Yield selectors, declarations, and whether the rule is in another, such as for print."""
    opened: list[str] = []
    pieces = _BRACE.split(css)
    for text, brace in zip(pieces[::2], pieces[1::2], strict=False):
        if brace == "{":
            opened.append(text.rpartition(";")[2].strip())
        elif opened:
            selectors = opened.pop()
            yield selectors, text, bool(opened)
