"""HTML as Markdown, without scripts, styles and hidden text."""

from __future__ import annotations

import functools
import html as entities
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from html_to_markdown import ConversionOptions, PreprocessingOptions
from html_to_markdown import convert as to_markdown

from resource_server.conversion.formats import encodings
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

_MAX_BYTES = 32 * 1024 * 1024
_HEAD_BYTES = 4096
"""Bytes at the start that may declare the encoding or the title; browsers read 1024."""

_MAX_AREA = 2_000_000
"""Cells of a table, with those that fill its rows up to the longest one."""
_MAX_SPAN = 1000
_MAX_CELLS = 100_000
"""Cells that are converted at a time."""
_END = "\n"
_ROW = re.compile(r"<tr\b", re.IGNORECASE)
_TABLE_TAG = re.compile(r"""<(/?)(table|tr|td|th)\b((?:[^>"']|"[^"]*"|'[^']*')*)>""", re.IGNORECASE)
_SPAN = re.compile(r"""\bcolspan\s*=\s*["']?\s*([0-9]{1,9})""", re.IGNORECASE)
_LINES = "[A table of very unequal rows, row by row:]"
_HIDDEN = '[aria-hidden="true"]'
_CLOSED = re.compile(r"<dialog\b(?![^>]*\bopen\b)", re.IGNORECASE)
_INPUT = re.compile(r"""<input\b((?:[^>"']|"[^"]*"|'[^']*')*)>""", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([\w-]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?""")
_UNSEEN = frozenset(("hidden", "password", "file", "image", "color", "range"))
"""Types of inputs whose values are not shown as text."""
_MAX_CHARACTERS: Final = 1_000_000
_MAX_SELECTORS: Final = 200
_TAG = re.compile(r"<(/?)style\b[^>]{0,300}>", re.IGNORECASE)
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|<!--|-->")
_BRACE = re.compile(r"([{}])")
_HIDES = re.compile(r"\b(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))\b")
_SHOWS = re.compile(r"\b(?:display\s*:(?!\s*none)|visibility\s*:\s*visible)")
_NAME = re.compile(r"[.#]-?[a-z_][\w-]{0,100}")


@functools.lru_cache(maxsize=4)
def _options(*hidden: str) -> ConversionOptions:
    return ConversionOptions(
        bullets="-",
        compact_tables=True,
        exclude_selectors=[_HIDDEN, *hidden],
        extract_metadata=False,
        hidden_content="drop",
        inline_data_media="alt_text_only",
        sup_symbol="<sup>",  # `10<sup>6</sup>` is not 106
        # Navigation and forms hold facts too: the contents of a book, the fields of a form.
        preprocessing=PreprocessingOptions(
            preset="minimal", remove_forms=False, remove_navigation=False
        ),
    )


_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]*?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE
)
_BEGIN = re.compile(
    rb"\A[^<]{0,10}(?:<!--[^>]*>\s*|<\?xml[^>]*>\s*)*"
    rb"<(?:!DOCTYPE html|html|head|meta|body|table|style)\b",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<title\b[^>]{0,200}>([^<]{1,1000})", re.IGNORECASE)
_TOO_DEEP = "it is nested too deeply"


def markdown_of(html: str) -> str:
    """Return a document or a fragment as Markdown.

    Raises:
        ConversionError: it is nested too deeply, or the parser refuses it.
    """
    html = _CLOSED.sub("<dialog hidden", _INPUT.sub(_with_value, html))
    options = _options(*_hidden_selectors(html))
    text = ""
    for piece, is_continued in _pieces(html):
        found = _converted(piece, options)
        if is_continued:  # below a header that is there already
            text = f"{text.rstrip()}\n{found.partition(_END)[2].partition(_END)[2]}"
        else:
            text = f"{text.rstrip()}\n\n{found}" if text else found
    return f"{text.strip()}\n" if text.strip() else ""


def _converted(html: str, options: ConversionOptions) -> str:
    try:
        result = to_markdown(html, options)
    except Exception as error:
        # The library raises a class per cause, and one for its own faults.
        raise ConversionError("it cannot be read as HTML") from error
    text = (result.content or "").strip()
    if result.warnings:
        if not text:
            raise ConversionError(_TOO_DEEP)
        text += f"\n\n[Some text is missing: {_TOO_DEEP}.]"
    return text


def _pieces(html: str) -> Iterator[tuple[str, bool]]:
    """Yield HTML in pieces, and whether each goes on with the rows of a table.

    The library takes up to 1 KB for each cell, so that long tables are converted row after row. It
    fills all rows up to the same length; a table that would be huge then is converted as lines.
    """
    end = 0
    is_large = html.count("<t") > _MAX_CELLS or _greatest_area(html.lower()) > _MAX_AREA
    for first, last, rows, width, has_tables in _tables(html) if is_large else ():
        if rows * width > _MAX_AREA:
            lines = _TABLE_TAG.sub(_line, html[first:last])
            yield f"{html[end:first]}<p>{_LINES}</p><p>{lines}</p>", False
            end = last
        elif rows * width > _MAX_CELLS and not has_tables:
            begins = [tag.start() for tag in _ROW.finditer(html, first, last)]
            step = max(_MAX_CELLS // width, 1)
            cuts = [*begins[step::step], last]
            yield f"{html[end : cuts[0]]}</table>", False
            header = f"<table><tr>{'<th></th>' * width}</tr>"
            for cut, following in itertools.pairwise(cuts):
                yield f"{header}{html[cut:following]}</table>", True
            end = last
    yield html[end:], False


def _with_value(tag: re.Match[str]) -> str:
    """Return the input of a form, and the value that it shows."""
    found = {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(tag[1])}
    kind = found.get("type", "text").lower()
    if kind in ("checkbox", "radio"):
        return f"{tag[0]} [{'x' if 'checked' in found else ' '}] "
    value = "" if kind in _UNSEEN or "hidden" in found else found.get("value", "")
    return f"{tag[0]} <span>{value.replace('<', '&lt;')}</span> " if value else tag[0]


def _greatest_area(html: str) -> int:
    """Return the area that no table of a page in lower case exceeds."""
    rows = html.split("<tr")
    width = max(row.count("<td") + row.count("<th") for row in rows)
    spans = (min(int(span), _MAX_SPAN) for span in _SPAN.findall(html))
    return len(rows) * width * max(spans, default=1)


def _line(tag: re.Match[str]) -> str:
    if tag[1] or tag[2].lower() == "table":
        return ""
    return "<br>" if tag[2].lower() == "tr" else " | "


def _tables(html: str) -> Iterator[tuple[int, int, int, int, bool]]:
    """Yield the outermost tables: begin, end, rows, cells of the longest row, nested tables."""
    begin = rows = depth = width = widest = 0
    has_tables = False
    for tag in _TABLE_TAG.finditer(html):
        name, is_end = tag[2].lower(), bool(tag[1])
        if name == "table":
            depth = max(depth + (-1 if is_end else 1), 0)
            has_tables = has_tables or depth > 1
            if depth == 1 and not is_end:
                begin, rows, width, widest, has_tables = tag.start(), 0, 0, 0, False
            elif depth == 0 and widest:
                yield begin, tag.end(), rows, widest, has_tables
                widest = 0
        elif name == "tr":
            rows, width = rows + (not is_end), 0
        elif not is_end:
            span = _SPAN.search(tag[3])
            width += min(max(int(span[1]), 1), _MAX_SPAN) if span else 1
            widest = max(widest, width)
    if depth and widest:
        yield begin, len(html), rows, widest, has_tables


def is_html(file: BinaryIO) -> bool:
    """Return whether a document begins as HTML, whatever its name says."""
    head = file.read(_HEAD_BYTES).replace(b"\0", b"")  # UTF-16, too
    file.seek(0)
    return _BEGIN.search(head) is not None


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the document as one part; its title comes first if it is no heading."""
    data = encodings.whole_document(file, _MAX_BYTES)
    declared = _CHARSET.search(data[:_HEAD_BYTES])
    label = request.options.get("encoding") or (declared and declared[1].decode("ascii", "ignore"))
    html = encodings.decoded(data, label or None)
    text = markdown_of(html)
    found = _TITLE.search(html[:_HEAD_BYTES])
    title = " ".join(entities.unescape(found[1]).split()) if found else ""
    if title and not re.search(rf"^#+ {re.escape(title)}\s*$", text, re.MULTILINE):
        text = f"# {title}\n\n{text}"
    yield Part(text, total=1)


def _hidden_selectors(html: str) -> Sequence[str]:
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
