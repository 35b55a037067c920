"""Blocks of documents as HTML: lists, tables, sections, comments, headers and footers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final
from xml.etree.ElementTree import Element

_LABELS: Final = frozenset(("page", "of"))
"""Words of a header or footer that say nothing beside a field."""
_FIELDS: Final = frozenset(
    """
    text:page-number text:page-count text:sheet-name text:date text:time w:fldSimple w:fldChar
    """.split()
)


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list."""

    level: int
    """From 0."""
    number: int | None
    """None of a list with bullets."""
    html: str


def lists_of(blocks: Iterable[Item | str]) -> str:
    """Return blocks as HTML, items in a row as nested lists."""
    pieces: list[str] = []
    opened: list[str] = []

    def close_to(depth: int) -> None:
        while len(opened) > depth:
            pieces.append(f"</li></{opened.pop()}>")

    for block in blocks:
        if isinstance(block, str):
            close_to(0)
            pieces.append(block)
            continue
        tag = "ul" if block.number is None else "ol"
        close_to(block.level + 1)
        if len(opened) == block.level + 1:
            if opened[-1] == tag:
                pieces.append("</li><li>")
            else:
                close_to(block.level)
        while len(opened) <= block.level:
            opened.append(tag)
            start = f' start="{block.number}"' if block.number not in (None, 1) else ""
            pieces.append(f"<{tag}{start}><li>")
        pieces.append(block.html)
    close_to(0)
    return "".join(pieces)


def table_of(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML; the first row is its header."""
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    lines: list[str] = []
    for row in rows:
        tag = "td" if lines else "th"
        cells = "".join(f"<{tag}>{cell}</{tag}>" for cell in row)
        lines.append(f"<tr>{cells}{f'<{tag}></{tag}>' * (width - len(row))}</tr>")
    return f"<table>{''.join(lines)}</table>"


def flat(blocks: Iterable[Item | str]) -> str:
    """Return blocks as one line of HTML, for a cell or a note."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Item):
            mark = "•" if block.number is None else f"{block.number}."
            lines.append(f"{mark} {block.html}")
            continue
        line = re.sub("</t[dh]><t[dh]>", ", ", block).replace("</tr><tr>", "; ")
        lines.append(
            re.sub("</?(?:p|h[1-6]|table|tr|td|th|ul|ol|li)(?: [^>]*)?>", " ", line).strip()
        )
    return "<br>".join(line for line in lines if line)


def sections_of(*sections: tuple[str, Iterable[Item | str]]) -> str:
    """Return blocks below headings as HTML, without those that have none."""
    written = ((title, lists_of(blocks)) for title, blocks in sections)
    return "".join(f"<h3>{title}</h3>{html}" for title, html in written if html)


def comment_of(author: str, text: str, place: str = "") -> str:
    """Return a comment as a line of HTML, with its author and place; its text is HTML already."""
    author = escape(" ".join(author.split()), quote=False)
    if place and author:
        author = f" ({author})"
    said = f"{escape(place, quote=False)}{author}"
    return f"{said}: {text}" if said else text


def comment_line(author: str, text: str) -> str:
    """Return a comment as a paragraph that follows the commented one; its text is HTML already."""
    author = escape(" ".join(author.split()), quote=False)
    return f"<p>[Comment{f' by {author}' if author else ''}: {text}]</p>"


def formatted(
    text: str,
    *,
    strong: bool = False,
    emphasis: bool = False,
    struck: bool = False,
    raised: bool = False,
) -> str:
    """Return text with its format; both are HTML."""
    if not text.strip():
        return text
    is_note = text.startswith("[^")
    for tag, is_on in (
        ("sup", raised and not is_note),
        ("s", struck),
        ("em", emphasis),
        ("strong", strong),
    ):
        text = f"<{tag}>{text}</{tag}>" if is_on else text
    return text


def linked(text: str, target: str) -> str:
    """Return text as a link; the text is HTML already."""
    return f'<a href="{escape(target)}">{text}</a>' if text.strip() and target else text


def ruby(base: str, above: str) -> str:
    """Return text with its pronunciation above it (ruby); both are HTML already."""
    return f"<ruby>{base}<rt>{above}</rt></ruby>" if above.strip() else base


def html_lines(text: str) -> str:
    """Return plain text as HTML that keeps its lines."""
    return "<br>".join(escape(line, quote=False) for line in text.strip().splitlines())


def margin_lines(margins: Iterable[tuple[str, Element, str]]) -> Iterator[str]:
    """Yield the lines of headers and footers, each once: their kind, element and HTML are given.

    Those that are nothing but the number of the page or the name of the sheet are left out.
    """
    said: set[str] = set()
    for kind, element, text in margins:
        has_field = any(each.tag in _FIELDS for each in element.iter())
        plain = re.sub("<[^>]*>", " ", text)
        if text and text not in said and not is_numbering(plain, has_field=has_field):
            said.add(text)
            yield f"<p>{kind}: {text}</p>"


def is_numbering(text: str, *, has_field: bool) -> bool:
    """Return whether a header or footer is nothing but the number of the page, or such a field."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    return has_field and _LABELS.issuperset(words)
