"""PDF as Markdown, page by page, or as pictures of its pages; by PDFium."""

from __future__ import annotations

import ctypes
import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]
import pypdfium2.raw  # pyright: ignore[reportMissingTypeStubs]

from resource_server.conversion.formats import pdf_tables
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

# The library has no types.
_library: Any = pypdfium2
_pdfium: Any = pypdfium2.raw

_MAX_SIDE = 1600
"""Pixels of the longer side of a picture."""
_MAX_URI_BYTES = 2048
_MAX_LINKS = 200
"""Links of a page that are shown."""
_MAX_HEADINGS = 10_000
_MAX_ANNOTATIONS = 1_000
"""Annotations of a page that are looked at."""
_MAX_TEXT_BYTES = 64 * 1024
_NO_COMMENTS = frozenset((_pdfium.FPDF_ANNOT_LINK, _pdfium.FPDF_ANNOT_POPUP))
_PASSWORD = 1 << 13
"""The flag of a field whose value nobody is to see."""
_UNSEEN = _pdfium.FPDF_ANNOT_FLAG_HIDDEN | _pdfium.FPDF_ANNOT_FLAG_NOVIEW


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield pages: their text, or with the format `png` their pictures."""
    document = _open(file)
    document.init_forms()
    total = len(document)
    last = min(request.last or total, total)
    if request.format == "png":
        for number in range(request.first, last + 1):
            yield Part(_picture(_page(document, number)), number, total, "image/png")
        return
    headings = _headings(document)
    for number in range(request.first, last + 1):
        yield Part(_markdown(document, number, headings.get(number, ())), number, total)


def _open(file: BinaryIO) -> Any:
    try:
        return _library.PdfDocument(file)
    except _library.PdfiumError as error:
        if "password" in str(error).lower():
            raise ConversionError("it is protected by a password") from None
        raise ConversionError("it is damaged, or no PDF") from None


def _page(document: Any, number: int) -> Any:
    try:
        return document[number - 1]
    except _library.PdfiumError:
        raise ConversionError(f"it is damaged: page {number} cannot be read") from None


def _headings(document: Any) -> Mapping[int, list[tuple[int, str]]]:
    """Return the levels and titles of the outline, by page."""
    found: dict[int, list[tuple[int, str]]] = {}
    for count, item in enumerate(document.get_toc(max_depth=8)):
        if count == _MAX_HEADINGS:
            break
        target = item.get_dest()
        index = target.get_index() if target is not None else None
        title = " ".join(item.get_title().split())
        if index is not None and title:
            found.setdefault(index + 1, []).append((item.level, title))
    return found


def _markdown(document: Any, number: int, headings: list[tuple[int, str]] | tuple[()]) -> str:
    page = _page(document, number)
    text_page = page.get_textpage()
    text = pdf_tables.text_of(text_page)
    lines = _with_headings(text.split("\n"), headings)
    if not text:
        lines = ["[This page is a picture: it has no text. Read it with format=png.]"]
    links = _links(document, page, text_page)
    parts = [f"## Page {number}", "\n".join(lines)]
    if links:
        parts.append("\n".join(f"- <{link}>" for link in links))
    comments, fields = _annotations(document, page)
    files = _attached(document) if number == 1 else []
    for title, lines in (
        ("Form fields", fields),
        ("Comments", comments),
        ("Attached files, not shown", files),
    ):
        if lines:
            parts += [f"#### {title}", "\n".join(f"- {line}" for line in lines)]
    text_page.close()
    page.close()
    return "\n\n".join(parts) + "\n"


def _with_headings(lines: list[str], headings: list[tuple[int, str]] | tuple[()]) -> list[str]:
    """Mark the lines that are titles in the outline; titles that are no line come first."""
    marked = [line.rstrip() for line in lines]
    missing: list[str] = []
    for level, title in headings:
        heading = f"{'#' * min(level + 3, 6)} {title}"
        at = next((at for at, line in enumerate(marked) if " ".join(line.split()) == title), None)
        if at is None:
            missing.append(heading)
        else:
            marked[at] = f"\n{heading}\n"
    return [*missing, *marked]


def _links(document: Any, page: Any, text_page: Any) -> list[str]:
    """Return the addresses that a page links to, each once."""
    found: dict[str, None] = {}
    position, link = ctypes.c_int(0), _pdfium.FPDF_LINK()
    while len(found) < _MAX_LINKS and _pdfium.FPDFLink_Enumerate(page, position, link):
        action = _pdfium.FPDFLink_GetAction(link)
        if action and _pdfium.FPDFAction_GetType(action) == _pdfium.PDFACTION_URI:
            buffer = ctypes.create_string_buffer(_MAX_URI_BYTES)
            size = _pdfium.FPDFAction_GetURIPath(document, action, buffer, _MAX_URI_BYTES)
            if 1 < size <= _MAX_URI_BYTES:
                found[buffer.raw[: size - 1].decode("utf-8", "replace")] = None
    return [uri for uri in found if uri.isprintable() and not set(uri) & set("<> ")]


def _annotations(document: Any, page: Any) -> tuple[list[str], list[str]]:
    """Return the comments on a page, and the fields of forms with their values."""
    comments: list[str] = []
    fields: list[str] = []
    for index in range(min(_pdfium.FPDFPage_GetAnnotCount(page), _MAX_ANNOTATIONS)):
        annotation = _pdfium.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        kind = _pdfium.FPDFAnnot_GetSubtype(annotation)
        if _pdfium.FPDFAnnot_GetFlags(annotation) & _UNSEEN:
            pass
        elif kind == _pdfium.FPDF_ANNOT_WIDGET and document.formenv is not None:
            form = document.formenv
            name = _text(_pdfium.FPDFAnnot_GetFormFieldName, form, annotation)
            value = _text(_pdfium.FPDFAnnot_GetFormFieldValue, form, annotation)
            is_secret = _pdfium.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD
            if name and value and not is_secret and f"{name}: {value}" not in fields:
                fields.append(f"{name}: {value}")
        elif kind not in _NO_COMMENTS:
            author = _text(_pdfium.FPDFAnnot_GetStringValue, annotation, b"T")
            said = _text(_pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")
            if said:
                comments.append(f"{author}: {said}" if author else said)
        _pdfium.FPDFPage_CloseAnnot(annotation)
    return comments, fields


def _text(read: Any, *arguments: Any) -> str:
    """Return a text that a function of the library writes to a buffer, on one line."""
    buffer = (_pdfium.FPDF_WCHAR * (_MAX_TEXT_BYTES // 2))()
    size = min(read(*arguments, buffer, _MAX_TEXT_BYTES), _MAX_TEXT_BYTES)
    return " ".join(bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace").split())


def _attached(document: Any) -> list[str]:
    """Return the names of the files in a document."""
    names: list[str] = []
    with suppress(_library.PdfiumError):  # a damaged entry ends the list
        numbers = range(min(document.count_attachments(), _MAX_ANNOTATIONS))
        names.extend(document.get_attachment(at).get_name() for at in numbers)
    return [" ".join(name.split()) for name in names]


def _picture(page: Any) -> bytes:
    width, height = page.get_size()
    if not (0 < width < 1e6 and 0 < height < 1e6):
        raise ConversionError("the page has no usable size")
    scale = min(_MAX_SIDE / max(width, height), 4.0)
    bitmap = page.render(scale=scale, may_draw_forms=False)
    buffer = io.BytesIO()
    bitmap.to_pil().save(buffer, "PNG", optimize=False)
    return buffer.getvalue()
