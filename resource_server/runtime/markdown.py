"""Markdown for untrusted text: escaping, headings, code and tables.

Anyone may have written the text in a database or a spreadsheet. It must not end a table cell, nor
turn into a link, an image or HTML when the Markdown is rendered (CommonMark 0.31, GitHub's tables).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from resource_server import uris

SPECIAL = "\n\r\\`|<[*_~&"
"""Characters that can start markup inside a line."""
_SPECIAL = re.compile(f"[{re.escape(SPECIAL)}]")

_ESCAPED = re.compile(
    r"""
      \r\n?|\n
    | [`|<\[*~]
    | \\(?=[!-/:-@\[-`{-~\r\n]|\Z)        # before a letter it is a backslash anyway
    | _(?![^\W_])|(?<![^\W_])_            # within a word it is no emphasis
    | &(?=[#A-Za-z])
    """,
    re.VERBOSE,
)
_BLOCK = re.compile(r"(?m)^( {0,3})(#{1,6}(?=[ \t]|$)|[-+>=]|\d{1,9}(?=[.)]))")
_TABLE = re.compile(rb"(?m)^\|.*\n\|(?: :?---+:? \|)+\n(?:^\|.*\n?)*")
_PUNCTUATION = re.compile(rb"\\([!-/:-@\[-`{-~])")
"""A character that is escaped."""
_BACKTICKS = re.compile(r"`+")


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    return "<br>" if found in {"\n", "\r", "\r\n"} else f"\\{found}"


def escape(text: str) -> str:
    """Return text for a line or table cell; line ends become `<br>`."""
    return _ESCAPED.sub(_escape, uris.display(text))


def paragraph(text: str) -> str:
    """Return text as one paragraph, without markup at the start of its lines."""
    lines = [escape(line.strip()) for line in text.strip().splitlines()]
    return "  \n".join(_BLOCK.sub(_escape_block, line) for line in lines if line)


def _escape_block(match: re.Match[str]) -> str:
    # `1.` is escaped after the digits.
    return f"{match[0]}\\" if match[2].isdigit() else f"{match[1]}\\{match[2]}"


def heading(text: str, level: int = 1) -> str:
    """Return a heading with this text."""
    # Trailing `#` would close the heading.
    shown = re.sub(r"(#+)$", r"\\\1", escape(text.strip()))
    return f"{'#' * level} {shown}"


def code(text: str) -> str:
    """Return text as inline code; line ends become spaces."""
    text = " ".join(uris.display(text).splitlines())
    if not text.strip():
        return text
    fence = _fence(text, 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _fence(text: str, least: int) -> str:
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * max(least, longest + 1)


def table_head(names: Sequence[str], numeric: Sequence[bool] = ()) -> str:
    """Return the header of a table; `numeric` columns are right-aligned."""
    rules = ["---:" if right else "---" for right in numeric or (False,) * len(names)]
    return f"{table_row(names)}| {' | '.join(rules)} |\n"


def table_row(cells: Sequence[str]) -> str:
    """Return a row of a table, given its cells as plain text."""
    if _SPECIAL.search("".join(cells)):
        cells = list(map(escape, cells))
    return f"| {' | '.join(cells)} |\n"


def with_plain_cells(text: bytes) -> bytes:
    """Return Markdown in which the cells of tables stand as they were written."""
    return _TABLE.sub(lambda table: _PUNCTUATION.sub(rb"\1", table[0]), text)


def table_rows(columns: Iterable[Sequence[str]]) -> str:
    """Return the rows of a table, given its columns of escaped cells."""
    rows = list(map(" | ".join, zip(*columns, strict=True)))
    lines = " |\n| ".join(rows)
    return f"| {lines} |\n" if rows else ""
