"""Small documents that point at hidden files: by links, includes, pictures and paths."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.conversion.formats.zipped import zipped
from tests.conversion.portable import pdf

_TARGETS = (".env", "docs/key.pem", "docs/.dot", "../docs/x.log", "/etc/passwd", "id_rsa")
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"


def _html() -> bytes:
    parts = [
        f'<a href="{target}">apple</a><img src="{target}" alt="apple">'
        f'<iframe src="file://{target}"></iframe><link rel="stylesheet" href="{target}">'
        for target in _TARGETS
    ]
    return f"<html><body>{''.join(parts)}</body></html>".encode()


def _notebook() -> bytes:
    source = [f"![apple]({target}) [x](file:{target})\n" for target in _TARGETS]
    cell: dict[str, object] = {"cell_type": "markdown", "metadata": {}, "source": source}
    notebook: dict[str, object] = {
        "cells": [cell],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook).encode()


def _mail() -> bytes:
    return (
        b"From: a@example.org\nSubject: =?utf-8?b?YXBwbGU=?=\n"
        b"Content-Type: message/external-body; access-type=local-file; name=docs/key.pem\n\napple\n"
    )


def _word() -> bytes:
    relations = "".join(
        f'<Relationship Id="r{at}" Type="{_OFFICE}/{kind}" Target="{target}"'
        ' TargetMode="External"/>'
        for at, (kind, target) in enumerate(
            (kind, target) for kind in ("hyperlink", "image", "aFChunk") for target in _TARGETS
        )
    )
    text = "".join(
        f'<w:p><w:hyperlink r:id="r{at}"><w:r><w:t>apple {at}</w:t></w:r></w:hyperlink></w:p>'
        f'<w:altChunk r:id="r{at}"/>'
        for at in range(3 * len(_TARGETS))
    )
    include = f'<w:p><w:fldSimple w:instr="INCLUDETEXT {_TARGETS[0]}"/></w:p>'
    return zipped(
        {
            "word/document.xml": f'<w:document xmlns:w="{_WORD}" xmlns:r="{_OFFICE}">'
            f"<w:body>{text}{include}</w:body></w:document>",
            "word/_rels/document.xml.rels": f'<Relationships xmlns="{_RELATIONS}">{relations}'
            "</Relationships>",
        }
    )


def _outside() -> bytes:
    """Return a document whose members have the paths of hidden files."""
    members = dict.fromkeys(_TARGETS, b"apple")
    return zipped({"word/document.xml": b"<w:document/>", "../../docs/.dot": b"", **members})


DOCUMENTS: Sequence[tuple[str, bytes]] = (
    ("page.html", _html()),
    ("cells.ipynb", _notebook()),
    ("mail.eml", _mail()),
    ("report.docx", _word()),
    ("outside.docx", _outside()),
    ("report.pdf", pdf("apple", *(f"see {target}" for target in _TARGETS[:2]))),
    ("table.csv", b"name;path\napple;.env\n"),
    ("old.txt", "\u00c4pfel apple, Gr\u00f6\u00dfe der \u00dcbung\n".encode("cp1252")),
    ("damaged.pdf", pdf("apple")[:150]),
)
"""Names and contents."""
