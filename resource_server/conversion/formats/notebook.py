"""Jupyter notebooks (nbformat 3 and 4) as Markdown, cell by cell, and their images."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TypeAlias, cast

from resource_server.conversion.formats import encodings
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part

try:
    from resource_server.conversion.formats.html import markdown_of
except ImportError:  # no extra `documents`: an HTML output shows its plain text
    markdown_of = None

_Json: TypeAlias = Mapping[str, Any]
_MAX_BYTES = 64 * 1024 * 1024
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_DATA_URI = re.compile(r"data:(image/[\w.+-]{1,40});base64,[A-Za-z0-9+/=\s]{40,}")
# Names of outputs in nbformat 3.
_MIME_TYPES = {
    "text": "text/plain",
    "html": "text/html",
    "latex": "text/latex",
    "json": "application/json",
    "javascript": "application/javascript",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "svg": "image/svg+xml",
}


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield cells; with the format `png` the images of their outputs, each of its own type."""
    notebook = _parsed(encodings.whole_document(file, _MAX_BYTES))
    cells = _cells(notebook)
    language = _language(notebook)
    total = len(cells)
    wanted = range(request.first, min(request.last or total, total) + 1)
    if request.format == "png":
        yield from _pictures(cells, wanted)
        return
    for number in wanted:
        try:
            text = encodings.sendable(_markdown(cells[number - 1], number, language))
        except RecursionError:
            raise ConversionError(f"cell {number} is nested too deeply") from None
        yield Part(text, number, total)


def _parsed(data: bytes) -> _Json:
    try:
        notebook: Any = json.loads(encodings.decoded(data, "utf-8"))
    except (ValueError, RecursionError):
        raise ConversionError("it is no notebook: its JSON is damaged") from None
    if not isinstance(notebook, dict):
        raise ConversionError("it is no notebook")
    return cast("_Json", notebook)


def _cells(notebook: _Json) -> Sequence[_Json]:
    if isinstance(notebook.get("cells"), list):
        return _mappings(notebook["cells"])
    if isinstance(notebook.get("worksheets"), list):
        return [
            cell
            for sheet in _mappings(notebook["worksheets"])
            for cell in _mappings(sheet.get("cells"))
        ]
    raise ConversionError("it is no notebook: it has no cells")


def _language(notebook: _Json) -> str:
    metadata = _mapping(notebook.get("metadata"))
    kernel = _mapping(metadata.get("kernelspec"))
    info = _mapping(metadata.get("language_info"))
    for name in (kernel.get("language"), info.get("name")):
        if isinstance(name, str) and re.fullmatch(r"[\w+#.-]{1,40}", name):
            return name
    return "python" if not kernel else ""


def _markdown(cell: _Json, number: int, language: str) -> str:
    kind = cell.get("cell_type")
    source = _joined(cell.get("source", cell.get("input")))
    blocks = [f"## Cell {number}"]
    if kind == "code":
        own = cell.get("language")
        if source.strip():
            blocks.append(_fenced(source, own if isinstance(own, str) else language))
        for output in _mappings(cell.get("outputs")):
            blocks += _output(output, number)
    elif kind == "heading":
        level = cell.get("level")
        hashes = "#" * (min(max(level, 1), 6) if isinstance(level, int) else 1)
        blocks.append(f"{hashes} {' '.join(source.split())}")
    elif kind == "raw":
        blocks.append(_fenced(source, ""))
    else:
        blocks.append(_DATA_URI.sub(r"\1", source))
        for data in _mapping(cell.get("attachments")).values():
            blocks += [_note(name, image, number) for name, image in _images(_mapping(data))]
    return "\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n"


def _output(output: _Json, number: int) -> Iterator[str]:
    """Yield the blocks of an output: the richest text that it has, and notes on its images."""
    kind = output.get("output_type")
    if kind == "stream":
        yield _fenced(_plain(_joined(output.get("text"))), "text")
    elif kind in ("error", "pyerr"):
        trace = "\n".join(_strings(output.get("traceback")))
        name, value = _joined(output.get("ename")), _joined(output.get("evalue"))
        if value not in _plain(trace):
            trace = f"{trace}\n{name}: {value}"
        yield _fenced(_plain(trace or f"{name}: {value}"), "text")
    else:
        data = _data(output)
        yield from _data_text(data)
        yield from (_note(name, image, number) for name, image in _images(data))


def _data_text(data: _Json) -> Iterator[str]:
    html, plain = _joined(data.get("text/html")), _plain(_joined(data.get("text/plain")))
    if "<table" in html.lower() or (html and not plain.strip()):
        text = _of_html(html)
        if text.strip():
            yield text
            return
    for name in ("text/markdown", "text/latex"):
        if text := _joined(data.get(name)):
            yield _DATA_URI.sub(r"\1", text)
            return
    if plain.strip():
        # What a figure is called by its program says nothing beside the figure.
        if not (re.fullmatch(r"<[^\n]{1,200}>", plain.strip()) and any(_images(data))):
            yield _fenced(plain, "text")
    elif "application/json" in data:
        yield _fenced(json.dumps(data["application/json"], ensure_ascii=False), "json")


def _of_html(html: str) -> str:
    if markdown_of is None:
        return ""
    try:
        return markdown_of(html)
    except ConversionError:
        return ""


def _pictures(cells: Sequence[_Json], wanted: range) -> Iterator[Part]:
    total, found = len(cells), False
    for number in wanted:
        for name, image in _cell_images(cells[number - 1]):
            found = True
            yield Part(image, number, total, name)
    if not found and wanted:
        others = [str(n) for n, cell in enumerate(cells, 1) if any(_cell_images(cell))]
        if not others:
            raise ConversionError("no cell of it has an image")
        where = ", ".join(others[:20])
        raise ConversionError(f"the cells asked for have no image; these have: {where}")


def _cell_images(cell: _Json) -> Iterator[tuple[str, bytes]]:
    for data in _mapping(cell.get("attachments")).values():
        yield from _images(_mapping(data))
    for output in _mappings(cell.get("outputs")):
        yield from _images(_data(output))


def _images(data: _Json) -> Iterator[tuple[str, bytes]]:
    """Yield the media types and bytes of an output's images."""
    for name, value in data.items():
        if not re.fullmatch(r"image/[\w.+-]{1,40}", name):
            continue
        text = _joined(value)
        if name == "image/svg+xml":
            yield name, text.encode("utf-8", "replace")
            continue
        try:
            yield name, binascii.a2b_base64(text)
        except ValueError:
            continue


def _note(name: str, image: bytes, number: int) -> str:
    return f"[image: {name}, {len(image):,} bytes; read it with format=png&pages={number}]"


def _data(output: _Json) -> _Json:
    """Return an output by media types."""
    if "data" in output:
        return _mapping(output["data"])
    return {_MIME_TYPES.get(name, name): value for name, value in output.items()}


def _plain(text: str) -> str:
    """Return text as a terminal shows it: no colors, and only the last state of a progress bar."""
    lines = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines)


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}" if text.strip() else ""


def _joined(value: object) -> str:
    """Return a multi-line string, which nbformat writes as one or as its lines."""
    return value if isinstance(value, str) else "".join(_strings(value))


def _strings(value: object) -> Sequence[str]:
    if not isinstance(value, list):
        return ()
    return [each for each in cast("list[object]", value) if isinstance(each, str)]


def _mapping(value: object) -> _Json:
    return cast("_Json", value) if isinstance(value, dict) else {}


def _mappings(value: object) -> Sequence[_Json]:
    if not isinstance(value, list):
        return ()
    return [_mapping(each) for each in cast("list[object]", value)]
