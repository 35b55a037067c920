"""What an XLSX sheet has beside its cells: comments, drawings, links, header and footer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape
from typing import Final
from xml.etree.ElementTree import Element

from resource_server.conversion.formats.archives import Archive, below
from resource_server.conversion.formats.blocks import (
    Item,
    comment_of,
    html_lines,
    is_numbering,
    linked,
    sections_of,
)
from resource_server.conversion.formats.drawings import Drawing
from resource_server.errors import ConversionError

MAX_AREA: Final = 5_000_000
"""Maximum number of cells in the rectangle around all cells of a sheet."""
_MAX_LINKS: Final = 1_000
_MARGIN: Final = re.compile(rb"<(?:\w+:)?(?:odd|even|first)(Header|Footer)\b[^>]*>([^<]*)</")
_LINK: Final = re.compile(rb"<(?:\w+:)?hyperlink\s([^>]*)>")
_ATTRIBUTE: Final = re.compile(rb"""([\w:]+)\s*=\s*["']([^"']*)["']""")
_FONT: Final = re.compile(r'&(?:"[^"]*"|K[0-9A-F]{6}|[0-9]{1,3})', re.IGNORECASE)
_FIELD: Final = re.compile("&[A-Z+-]", re.IGNORECASE)
_PLACE: Final = re.compile("&[LCR]", re.IGNORECASE)


class SheetParts:
    """The parts of a workbook that its sheets refer to."""

    def __init__(self, archive: Archive, main: str) -> None:
        self._archive = archive
        self._persons = {
            person.get("id", ""): person.get("displayName", "")
            for part in archive.related(main, "person")
            for person in archive.xml(part)
        }

    def remarks(self, part: str, tail: bytes) -> str:
        """Return what a sheet has beside its cells as HTML; `tail` is its XML after them."""
        return sections_of(
            ("Comments", self._comments(part)),
            ("Drawings", self.drawings(part)),
            ("Links", self._links(part, tail)),
            ("Header and footer", _margins(tail)),
        )

    def _comments(self, part: str) -> Iterator[Item]:
        threaded: set[str] = set()
        for name in self._archive.related(part, "threadedComment"):
            for comment in self._archive.xml(name).iter("xt:threadedComment"):
                reference = comment.get("ref", "")
                threaded.add(reference)
                author = self._persons.get(comment.get("personId", ""), "")
                text = comment.findtext("xt:text") or ""
                level = 1 if comment.get("parentId") else 0
                yield Item(level, None, comment_of(author, html_lines(text), reference))
        for name in self._archive.related(part, "comments"):
            root = self._archive.xml(name)
            authors = [author.text or "" for author in root.iter("x:author")]
            for comment in root.iter("x:comment"):
                reference, number = comment.get("ref", ""), comment.get("authorId", "")
                author = authors[int(number)] if number in map(str, range(len(authors))) else ""
                # Programs that know no threads are given a comment that asks for another program.
                if reference not in threaded:
                    text = "".join(each.text or "" for each in comment.iter("x:t"))
                    text = text.removeprefix(f"{author}:")
                    yield Item(0, None, comment_of(author, html_lines(text), reference))

    def drawings(self, part: str) -> Iterator[Item | str]:
        """Yield what the shapes on a sheet show, each with the cell that it is at."""
        for name in self._archive.related(part, "drawing"):
            drawing = Drawing(self._archive, name)
            for anchor in self._archive.xml(name):
                corner = below(anchor, "xdr:from")
                place = "" if corner is None else _reference(corner)
                for shape in drawing.shapes(anchor):
                    if blocks := drawing.blocks(shape):
                        yield from ((f"<p>At {place}:</p>",) if place else ())
                        yield from blocks

    def _links(self, part: str, tail: bytes) -> Iterator[Item]:
        relations = self._archive.relations(part)
        for link in _LINK.findall(tail)[:_MAX_LINKS]:
            given = {name.rpartition(b":")[2]: value for name, value in _ATTRIBUTE.findall(link)}
            relation = relations.get(given.get(b"id", b"").decode("utf-8", "replace"))
            if relation is not None and relation.is_external:
                link = linked(escape(relation.target), relation.target)
                place = unescape(given.get(b"ref", b"").decode("utf-8", "replace"))
                yield Item(0, None, f"{escape(place)}: {link}")


def _margins(tail: bytes) -> Iterator[Item | str]:
    """Yield the texts of the header and the footer, without their fields and fonts."""
    said: set[str] = set()
    for kind, data in _MARGIN.findall(tail):
        line = margin_line(kind.decode(), unescape(data.decode("utf-8", "replace")))
        if line not in said:
            said.add(line)
            yield line


def margin_line(kind: str, code: str) -> str:
    """Return a header or footer as HTML; Excel writes it as `&L&"Arial"left&Rright &P`."""
    code = _FONT.sub("", code.replace("&&", "\0"))
    pieces = (_FIELD.sub("", piece) for piece in _PLACE.split(code))
    text = " | ".join(piece for piece in (" ".join(each.split()) for each in pieces) if piece)
    has_field = _FIELD.search(_PLACE.sub("", code)) is not None
    if not text or is_numbering(text, has_field=has_field):
        return ""
    return f"<p>{kind}: {escape(text.replace(chr(0), '&'), quote=False)}</p>"


def _reference(corner: Element) -> str:
    """Return the name of the cell that a drawing begins at."""
    row, column = (corner.findtext(name, "").strip() for name in ("xdr:row", "xdr:col"))
    if not (row.isdecimal() and column.isdecimal() and len(row) < 8 and len(column) < 6):
        return ""
    return f"{column_letters(int(column) + 1)}{int(row) + 1}"


def column_letters(number: int) -> str:
    """Return the letters of a column, counted from 1."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def refuse_area(width: int, height: int, limit: int = MAX_AREA) -> None:
    """Refuse a sheet of this extent, for which calamine would allocate each cell.

    Raises:
        ConversionError: it is too large.
    """
    if width * height > limit:
        raise ConversionError(f"a sheet extends over more than {limit:,} cells")
