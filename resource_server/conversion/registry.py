"""The converters that are there: those of this package, and those of entry points.

Nothing is imported: a converter runs in a worker only. One whose packages are missing is not
offered; `missing` names what it waits for.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from resource_server.provider import Format

GROUP = "resource_server.converters"
"""The group of entry points; each has the name of a media type."""

Unit: TypeAlias = Literal["pages", "slides", "sheets", "cells", "chapters"]

MARKDOWN = Format("markdown", "text/markdown")
_JSON = Format("json", "application/json")
_TEXT = Format("text", "text/plain")
_PNG = Format("png", "image/png")
_WEBP = Format("webp", "image/webp")


class ConverterEntry(msgspec.Struct, frozen=True):
    """A converter, as it is offered."""

    reference: str
    """The function, as `module:name`."""
    formats: tuple[Format, ...] = (MARKDOWN,)
    unit: Unit | None = None
    """The URI parameter that selects parts of a document, as in `pages=3-7`."""
    options: tuple[str, ...] = ()
    """Other URI parameters that it takes."""
    needs: tuple[str, ...] = ()
    """Modules of other packages."""

    @property
    def is_available(self) -> bool:
        """Whether its packages are installed."""
        return all(map(_is_installed, self.needs))


_MODULES = "resource_server.conversion.formats"
_WORD = ConverterEntry(f"{_MODULES}.word:convert", needs=("html_to_markdown",))
_SHEETS = ConverterEntry(
    f"{_MODULES}.sheets:convert",
    unit="sheets",
    options=("sheet", "rows", "columns"),
    needs=("python_calamine",),
)
_SLIDES = ConverterEntry(f"{_MODULES}.slides:convert", unit="slides", needs=("html_to_markdown",))
_HTML = ConverterEntry(f"{_MODULES}.html:convert", needs=("html_to_markdown",))
_DELIMITED = ConverterEntry(
    f"{_MODULES}.delimited:convert", (MARKDOWN, _JSON), options=("rows", "columns")
)
_COMPRESSED = ConverterEntry(f"{_MODULES}.compressed:convert", (_TEXT,))
_IMAGE = ConverterEntry(
    f"{_MODULES}.images:convert", (_WEBP, _PNG), options=("max",), needs=("PIL",)
)
_OPEN_XML = "application/vnd.openxmlformats-officedocument."
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_BUILT_IN: Mapping[str, ConverterEntry] = {
    "application/pdf": ConverterEntry(
        f"{_MODULES}.pdf:convert", (MARKDOWN, _PNG), "pages", needs=("pypdfium2", "PIL")
    ),
    f"{_OPEN_XML}wordprocessingml.document": _WORD,
    f"{_OPEN_DOCUMENT}text": _WORD,
    f"{_OPEN_XML}spreadsheetml.sheet": _SHEETS,
    f"{_OPEN_DOCUMENT}spreadsheet": _SHEETS,
    "application/vnd.ms-excel": _SHEETS,
    f"{_OPEN_XML}presentationml.presentation": _SLIDES,
    f"{_OPEN_DOCUMENT}presentation": _SLIDES,
    "application/epub+zip": ConverterEntry(
        f"{_MODULES}.epub:convert", unit="chapters", needs=("html_to_markdown",)
    ),
    "text/html": _HTML,
    "application/xhtml+xml": _HTML,
    "application/x-ipynb+json": ConverterEntry(
        f"{_MODULES}.notebook:convert", (MARKDOWN, _PNG), "cells"
    ),
    "message/rfc822": ConverterEntry(f"{_MODULES}.mail:convert"),
    "text/csv": _DELIMITED,
    "text/tab-separated-values": _DELIMITED,
    "application/jsonl": _DELIMITED,
    "application/x-ndjson": _DELIMITED,
    "application/gzip": _COMPRESSED,
    "application/x-bzip2": _COMPRESSED,
    "application/x-xz": _COMPRESSED,
    **dict.fromkeys(
        ("image/png", "image/jpeg", "image/gif", "image/webp", "image/tiff", "image/bmp"), _IMAGE
    ),
}

PARAMETERS: frozenset[str] = frozenset(
    (
        "format",
        *(entry.unit for entry in _BUILT_IN.values() if entry.unit is not None),
        *(option for entry in _BUILT_IN.values() for option in entry.options),
    )
)
"""URI parameters of conversions."""


def converter_of(media_type: str | None) -> ConverterEntry | None:
    """Return the converter of a media type, if there is one whose packages are installed."""
    found = _entry_of(media_type)
    return found if found is not None and found.is_available else None


@functools.lru_cache(maxsize=256)
def formats_of(media_type: str | None) -> tuple[Format, ...]:
    """Return the formats that documents of a media type can be converted into."""
    converter = converter_of(media_type)
    return () if converter is None else converter.formats


def missing(media_type: str | None) -> Sequence[str]:
    """Return the modules that the converter of a media type waits for."""
    found = _entry_of(media_type)
    return () if found is None else [name for name in found.needs if not _is_installed(name)]


def _entry_of(media_type: str | None) -> ConverterEntry | None:
    bare = (media_type or "").partition(";")[0].strip().lower()
    return _added().get(bare) or _BUILT_IN.get(bare)


@functools.lru_cache(maxsize=64)
def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@functools.lru_cache(maxsize=1)
def _added() -> Mapping[str, ConverterEntry]:
    """Return the converters of other packages, by media type."""
    from importlib.metadata import entry_points  # slow, and only needed for a conversion

    found: dict[str, ConverterEntry] = {}
    for each in entry_points(group=GROUP):
        known = _BUILT_IN.get(each.name.lower())
        unit = None if known is None else known.unit
        found[each.name.lower()] = ConverterEntry(each.value, unit=unit)
    return found
