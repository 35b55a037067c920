"""Jupyter notebooks as Markdown."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from resource_server.conversion.formats.notebook import convert
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest, Part
from tests.cases import for_each
from tests.conversion.formats.confined import in_a_worker
from tests.conversion.formats.damaged import damaged

_PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(12_000)
_BASE64 = base64.encodebytes(_PICTURE).decode()
_NOTEBOOK: dict[str, Any] = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "ir", "language": "R"}},
    "cells": [
        {
            "cell_type": "markdown",
            "source": ["# Größen\n", f"![x](data:image/png;base64,{'A' * 100})"],
            "attachments": {"a.png": {"image/png": _BASE64}},
        },
        {
            "cell_type": "code",
            "source": "print('```')\nplot(x)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["10%\r50%\r100%\n", "done\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": _BASE64, "text/plain": ["<Figure size 640x480>"]},
                },
            ],
        },
        {
            "cell_type": "code",
            "source": ["frame"],
            "outputs": [
                {
                    "output_type": "execute_result",
                    "data": {
                        "text/plain": "   city\n0  Oslo",
                        "text/html": [
                            "<style>td{color:red}</style>",
                            "<table><tr><th>city</th></tr><tr><td>Oslo</td></tr></table>",
                        ],
                    },
                },
                {"output_type": "execute_result", "data": {"text/plain": ["[1,\n", " 2]"]}},
                {"output_type": "display_data", "data": {"application/json": {"deep": [1]}}},
            ],
        },
        {
            "cell_type": "code",
            "source": "1/0",
            "outputs": [
                {
                    "output_type": "error",
                    "ename": "ZeroDivisionError",
                    "evalue": "division by zero",
                    "traceback": [
                        "\u001b[0;31m-----\u001b[0m",
                        "\u001b[0;31mZeroDivisionError\u001b[0m: division by zero",
                    ],
                }
            ],
        },
        {"cell_type": "raw", "source": "raw text"},
    ],
}
_OLD_NOTEBOOK: dict[str, Any] = {
    "nbformat": 3,
    "metadata": {"name": "old"},
    "worksheets": [
        {
            "cells": [
                {"cell_type": "heading", "level": 2, "source": ["Old heading"]},
                {
                    "cell_type": "code",
                    "language": "python",
                    "input": ["print 6*7"],
                    "outputs": [
                        {"output_type": "stream", "stream": "stdout", "text": "42\n"},
                        {"output_type": "pyout", "text": ["'old result'"], "prompt_number": 1},
                        {"output_type": "display_data", "png": _BASE64},
                        {
                            "output_type": "pyerr",
                            "ename": "NameError",
                            "evalue": "no x",
                            "traceback": [],
                        },
                    ],
                },
            ]
        }
    ],
}


def _parts(notebook: Any, **wanted: Any) -> Sequence[Part]:
    request = ConversionRequest(media_type="application/x-ipynb+json", **wanted)
    data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
    return list(convert(io.BytesIO(data), request))


def _text(notebook: Any, **wanted: Any) -> str:
    return "\n".join(str(part.data) for part in _parts(notebook, **wanted))


def test_each_cell_is_a_part_with_its_number() -> None:
    parts = _parts(_NOTEBOOK)
    assert [(part.number, part.total) for part in parts] == [(number, 5) for number in range(1, 6)]
    assert all(str(part.data).startswith(f"## Cell {part.number}\n") for part in parts)


def test_the_cells_asked_for_are_given() -> None:
    assert [part.number for part in _parts(_NOTEBOOK, first=2, last=3)] == [2, 3]
    assert [part.number for part in _parts(_NOTEBOOK, first=4)] == [4, 5]
    assert _parts(_NOTEBOOK, first=6) == []


def test_sources_and_outputs_are_text() -> None:
    text = _text(_NOTEBOOK)
    for fact in (
        "# Größen",
        "````R\nprint('```')\nplot(x)\n````",
        "```text\n100%\ndone\n```",
        "| city |\n| --- |\n| Oslo |",
        "```text\n[1,\n 2]\n```",
        '{"deep": [1]}',
        "ZeroDivisionError: division by zero",
        "raw text",
    ):
        assert fact in text


def test_pictures_colors_and_styles_are_no_text() -> None:
    text = _text(_NOTEBOOK)
    for absent in ("AAAA", "\x1b", "[0;31m", "color:red", "10%\r", "Figure size"):
        assert absent not in text


def test_images_are_named_with_the_way_to_read_them() -> None:
    note = "[image: image/png, 12,008 bytes; read it with format=png&pages={}]"
    assert note.format(1) in _text(_NOTEBOOK, first=1, last=1)
    assert note.format(2) in _text(_NOTEBOOK, first=2, last=2)


def test_images_are_parts_of_the_format_png() -> None:
    parts = _parts(_NOTEBOOK, format="png")
    assert [(part.number, part.mime_type) for part in parts] == [(1, "image/png"), (2, "image/png")]
    assert all(part.data == _PICTURE for part in parts)


def test_a_cell_without_an_image_says_which_have_one() -> None:
    with pytest.raises(ConversionError, match="these have: 1, 2"):
        _parts(_NOTEBOOK, format="png", first=3, last=3)


def test_notebooks_of_format_3_are_read() -> None:
    text = _text(_OLD_NOTEBOOK)
    for fact in (
        "## Old heading",
        "```python\nprint 6*7\n```",
        "42",
        "'old result'",
        "NameError: no x",
        "pages=2]",
    ):
        assert fact in text
    (part,) = _parts(_OLD_NOTEBOOK, format="png")
    assert part.data == _PICTURE


@for_each(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"cells": 5}',
        b"[" * 200_000,
        b'{"cells":' * 100_000,
        b'{"cells": [' + b"9" * 10_000 + b"]}",
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_notebook_is_refused(data: bytes) -> None:
    with pytest.raises(ConversionError, match="no notebook"):
        _parts(data)


@for_each("odd", [None, 5, "text", [], {}, [None], [5], {"a": 5}, [["x"]]])
@for_each("place", ["source", "outputs", "attachments", "cell_type", "language"])
def test_odd_members_are_passed_over(odd: Any, place: str) -> None:
    cell = {"cell_type": "code", "source": "kept", place: odd}
    other = {"cell_type": "code", "outputs": [{"output_type": "stream", place: odd, "data": odd}]}
    text = _text({"cells": [cell, {**cell, "cell_type": "markdown"}, other, odd], "metadata": odd})
    assert "## Cell 4" in text


def test_half_a_surrogate_pair_does_not_make_a_notebook_unreadable() -> None:
    data = b'{"cells": [{"cell_type": "markdown", "source": "fact \\ud83d, \\ud83d\\ude00"}]}'
    (part,) = in_a_worker(
        "notebook", data, ConversionRequest(media_type="application/x-ipynb+json")
    )
    assert part.data == "## Cell 1\n\nfact \ufffd, \U0001f600\n"


@for_each("depth", [*range(900, 1000, 7), 5000])
def test_deep_json_output_is_refused_in_words(depth: int) -> None:
    output = b'{"data": {"application/json": ' + b"[" * depth + b"]" * depth + b"}}"
    data = b'{"cells": [{"cell_type": "code", "outputs": [' + output + b"]}]}"
    with suppress(ConversionError):
        assert b"## Cell 1" in _text(data).encode()


def test_damaged_documents_raise_nothing_but_conversion_errors() -> None:
    begin = time.process_time()
    small = json.dumps(_NOTEBOOK).replace(json.dumps(_BASE64), '"iVBORw0KGgo="').encode()
    for data in damaged(small, count=400):
        for name in ("markdown", "png"):
            with suppress(ConversionError):
                _parts(data, format=name)
    assert time.process_time() - begin < 60


def test_a_confined_worker_converts_notebooks() -> None:
    request = ConversionRequest(media_type="application/x-ipynb+json")
    parts = in_a_worker("notebook", json.dumps(_NOTEBOOK).encode(), request)
    assert [part.data for part in parts] == [part.data for part in _parts(_NOTEBOOK)]
