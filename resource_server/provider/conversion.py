"""The conversion contract: a function that turns a document into text or images, part by part.

A package offers one by an entry point of the group `resource_server.converters`, named after the
media type that it converts:

    [project.entry-points."resource_server.converters"]
    "application/pdf" = "my_package:convert"

It makes Markdown; other formats of a built-in converter remain. It runs in a worker process without
network and can open no file but the one it is given, within 15 s and 512 MiB of memory
(`docs/documents.md`). A module that needs more memory has a constant `MEMORY_BYTES`, of at most
4 GiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO, Protocol

import msgspec

MARKDOWN = "text/markdown"


class ConversionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What of a document is wanted, and in which format."""

    media_type: str
    """That of the document."""
    format: str = "markdown"
    """The name of a format that the converter offers: `markdown`, `json`, `text`, `png`, `webp`."""
    first: int = 1
    """Number of the first part that is wanted, such as a page or slide, counted from 1."""
    last: int | None = None
    """Number of the last one; None for all."""
    options: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Other URI parameters, such as `columns` or `max`."""


class Part(msgspec.Struct, frozen=True):
    """A part of a converted document, in order: a page, slide, sheet, cell or some rows."""

    data: str | bytes
    """Text, or an image."""
    number: int = 1
    """Counted from 1; of several rows, the first."""
    total: int | None = None
    """Number of parts in the whole document, if known by now."""
    mime_type: str = MARKDOWN
    is_picture: bool = False
    """Whether it shows pictures and no text: a search tells that it could not look into them."""


class Converter(Protocol):
    """The function that an entry point names."""

    def __call__(self, file: BinaryIO, request: ConversionRequest, /) -> Iterable[Part]:
        """Yield the parts of a document that are wanted.

        Raises:
            ConversionError: it cannot be converted; the message has the reason for a person.
            InvalidParameter: it has nothing for one of the options, such as no such column.
        """
        ...
