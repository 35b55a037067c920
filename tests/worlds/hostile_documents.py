"""Documents that harm a converter: samples with damage, and bombs."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import json
import lzma
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PIL import Image

from tests.conversion.formats.zipped import unzipped, xml_bombs, zipped
from tests.conversion.samples import SAMPLES
from tests.conversion.xls import xls

_MAX_BYTES = 4 * 1024 * 1024
_MAX_PACKED_BYTES = 64 * 1024
"""Bombs are larger; to pack them again takes long."""
_NUMBERS = (b"0", b"-1", b"65536", b"2147483648", b"4294967295", b"99999999999", b"1e309", b"NaN")
_WORDS = (b"\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0")
_NUMBER = re.compile(rb"(?<![\w.])[0-9]{1,9}(?![\w.])")
_TAG = re.compile(rb"<([\w:]{1,40})[^<>]{0,200}>")
OUTSIDE = "https://example.com/@OUTSIDE@"
"""Stands in documents for the address of a file that no converter may read."""


@dataclass(frozen=True)
class Damage:
    """A change of a document's bytes, which `seed` rolls."""

    kind: str
    seed: int


def sound() -> Mapping[str, Callable[[], bytes]]:
    """Return documents of every format that are whole, by file name."""
    whole = {sample.name: functools.partial(bytes, sample.data) for sample in SAMPLES}
    return {**whole, **_IMAGES}


def documents() -> Mapping[str, Callable[[], bytes]]:
    """Return the documents to begin with, by file name."""
    return {**sound(), **_BOMBS}


def damaged(document: bytes, damage: Damage) -> bytes:
    """Return a damaged document, which is not much larger."""
    dice = random.Random(damage.seed)  # noqa: S311
    return KINDS[damage.kind](document, dice)[:_MAX_BYTES]


# Damage


def _truncate(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def _flip(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 3, 30)) if data else 0):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _cut(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + data[at + dice.choice((1, 7, 100, 5000)) :]


def _repeat(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    size, count = dice.choice(((9, 100_000), (100, 5_000), (3_000, 100), (60, 2)))
    return data[:at] + data[at : at + size] * count + data[at:]


def _splice(data: bytes, dice: random.Random) -> bytes:
    other = dice.choice(SAMPLES).data
    at, begin = dice.randrange(len(data) + 1), dice.randrange(len(other))
    return data[:at] + other[begin : begin + dice.choice((20, 500, 9**9))] + data[at:]


def _number(data: bytes, dice: random.Random) -> bytes:
    """Replace a number that is written in digits."""
    found = list(_NUMBER.finditer(data[:200_000]))
    if not found:
        return _word(data, dice)
    match = dice.choice(found)
    return data[: match.start()] + dice.choice(_NUMBERS) + data[match.end() :]


def _word(data: bytes, dice: random.Random) -> bytes:
    """Replace a binary number."""
    at = dice.randrange(len(data) // 2 + 1) * 2
    word = dice.choice(_WORDS)
    return data[:at] + word + data[at + len(word) :]


def _nest(data: bytes, dice: random.Random) -> bytes:
    """Open a tag or bracket many times."""
    found = list(_TAG.finditer(data[:200_000]))
    count = dice.choice((3, 300, 20_000))
    if not found:
        at = dice.randrange(len(data) + 1)
        return data[:at] + dice.choice((b"[", b"(", b"<<", b'{"a":')) * count + data[at:]
    match = dice.choice(found)
    end = b"</%b>" % match[1] * dice.choice((0, count))
    return data[: match.start()] + match[0] * count + data[match.end() :] + end


def _within(data: bytes, dice: random.Random) -> bytes:
    """Damage what is packed in a document, and pack it again."""
    kind = dice.choice([name for name in KINDS if name != "within"])
    inner = Damage(kind, dice.randrange(2**32))
    if len(data) > _MAX_PACKED_BYTES:
        return damaged(data, inner)
    for unpack, pack in _PACKINGS:
        try:
            return pack(damaged(unpack(data), inner))
        except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError):
            continue
    try:
        members = unzipped(data)
    except (*_UNREADABLE, ValueError, NotImplementedError, RuntimeError):
        return damaged(data, inner)
    if not members:
        return data
    name = dice.choice(sorted(members))
    if dice.randrange(8) == 0:
        members[name] = members[dice.choice(sorted(members))]
    else:
        members[name] = damaged(members[name], inner)
    return zipped(members)


_UNREADABLE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError)
_PACKINGS: tuple[tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]], ...] = (
    (gzip.decompress, gzip.compress),
    (bz2.decompress, bz2.compress),
    (lzma.decompress, lzma.compress),
)
KINDS: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "truncate": _truncate,
    "flip": _flip,
    "cut": _cut,
    "repeat": _repeat,
    "splice": _splice,
    "number": _number,
    "word": _word,
    "nest": _nest,
    "within": _within,
}


# Images


def _image(name: str) -> bytes:
    target = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(target, name)
    return target.getvalue()


_IMAGES: Mapping[str, Callable[[], bytes]] = {
    f"picture.{suffix}": functools.partial(_image, name)
    for suffix, name in {
        "png": "PNG",
        "jpg": "JPEG",
        "gif": "GIF",
        "webp": "WEBP",
        "tiff": "TIFF",
        "bmp": "BMP",
    }.items()
}


# Bombs


def _sample(name: str) -> bytes:
    return next(sample.data for sample in SAMPLES if sample.name == name)


def _with_member(name: str, member: str, data: bytes) -> bytes:
    return zipped({**unzipped(_sample(name)), member: data})


def _huge_png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", check)

    head = struct.pack("!IIBBBBB", 90_000, 90_000, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(30_000_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _outside(name: str, member: str) -> bytes:
    """Return a document that names a file outside as an entity."""
    inner = unzipped(_sample(name))[member].decode()
    root = re.sub(r"^<\?xml[^>]*>", "", inner)
    declared = f'<!DOCTYPE x [<!ENTITY e SYSTEM "{OUTSIDE}">]>'
    return _with_member(name, member, (declared + root.replace("Zürich", "&e;")).encode())


def _looping_pdf() -> bytes:
    return re.sub(rb"/Kids \[[^]]*\]", b"/Kids [2 0 R 2 0 R 6 0 R]", _sample("report.pdf"))


_MEMBERS = {
    "contract.docx": "word/document.xml",
    "sales.xlsx": "xl/worksheets/sheet1.xml",
    "talk.pptx": "ppt/slides/slide1.xml",
    "letter.odt": "content.xml",
    "stock.ods": "content.xml",
    "deck.odp": "content.xml",
    "novel.epub": "1.xhtml",
}
_HTML_OUTSIDE = (
    f'<iframe src="{OUTSIDE}"></iframe><object data="{OUTSIDE}"></object><embed src="{OUTSIDE}">'
    f'<link rel=import href="{OUTSIDE}"><p>text'
)
_BOMBS: Mapping[str, Callable[[], bytes]] = {
    **{
        f"zeros-{name}": functools.partial(_with_member, name, member, bytes(60_000_000))
        for name, member in _MEMBERS.items()
    },
    **{
        f"laughs-{name}": functools.partial(
            _with_member, name, member, xml_bombs("document")["laughs"]
        )
        for name, member in _MEMBERS.items()
    },
    **{
        f"outside-{name}": functools.partial(_outside, name, member)
        for name, member in _MEMBERS.items()
    },
    "outside.html": lambda: _HTML_OUTSIDE.encode(),
    "zeros.txt.gz": lambda: gzip.compress(bytes(250_000_000), 6),
    "zeros.txt.bz2": lambda: bz2.compress(bytes(250_000_000)),
    "zeros.txt.xz": lambda: lzma.compress(bytes(250_000_000), preset=0),
    "huge.png": _huge_png,
    "loop.pdf": _looping_pdf,
    "far.xls": lambda: xls({"A": {(0, 0): "near"}, "B": {(0, 0): "near", (65535, 255): "far"}}),
    "deep.ipynb": lambda: b'{"cells":' + b"[" * 200_000,
    "deep.jsonl": lambda: b"\n".join([b'{"a":' * 3_000 + b"1" + b"}" * 3_000] * 50),
    "deep.html": lambda: b"<table><tr><td>" * 50_000,
    "wide.csv": lambda: b"a," * 1_000_000,
    "quote.csv": lambda: b'a,b\n1,"' + b"x\n" * 1_000_000,
    "long.csv": lambda: b"a;b\n" + b"1;2\n" * 500_000,
    "deep.eml": lambda: b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n)
        for n in range(3_000)
    ),
    "words.eml": lambda: b"Subject: " + b"=?utf-8?Q?a?= " * 100_000 + b"\r\n\r\ntext",
    "cells.ipynb": lambda: json.dumps(
        {"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "x"}] * 30_000}
    ).encode(),
}
