"""The converters that are installed: those of this package, and those of entry points.

Nothing is imported: a converter runs in a worker only. One whose packages are missing is not
offered; `missing` has the modules that it waits for.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from resource_server import __version__, media_types
from resource_server.provider import Format
from resource_server.runtime import extras

GROUP = "resource_server.converters"
"""The group of entry points; each has the name of a media type."""

Unit: TypeAlias = Literal["pages", "slides", "sheets", "cells", "chapters", "parts"]

MARKDOWN = Format("markdown", "text/markdown")
_JSON = Format("json", "application/json")
CSV = Format("csv", "text/csv")
TEXT = Format("text", "text/plain")
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
    version: str = __version__
    """That of its package: another one may convert otherwise."""
    inside: str | None = None
    """The media type of the document in a compressed one."""
    is_verbatim: bool = False
    """Whether it gives text as the document has it, even where that looks like a table."""
    others: ConverterEntry | None = None
    """The converter of formats that another function makes."""

    def of(self, format: str) -> ConverterEntry:
        """Return the converter of one of its formats."""
        if self.others is not None and format in (each.name for each in self.others.formats):
            return self.others
        return self

    @property
    def parameters(self) -> str:
        """The URI parameters that it takes beside `format`, each with an example."""
        names = (*((self.unit,) if self.unit else ()), *self.options)
        return ", ".join(f"{name}={_EXAMPLES.get(name, '3-7')}" for name in names)

    @property
    def missing(self) -> Sequence[str]:
        """The modules that are not installed."""
        return [name for name in self.needs if not _is_installed(name)]

    @property
    def is_available(self) -> bool:
        """Whether its packages are installed."""
        return not self.missing


_EXAMPLES = {
    "sheet": "NAME",
    "rows": "1-100",
    "columns": "a,b",
    "encoding": "cp1252",
    "max": "1024",
}
"""Values of URI parameters that are no numbers of pages or the like."""
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
"""The module for Zstandard."""
SHEET_NAMES = "sheet-names"
"""The format with the name of a sheet in each part; only for completion, never offered."""
_MAX_TYPES = 512
"""Maximum media types whose converters are kept."""
_MODULES = "resource_server.conversion.formats"
_WORD = ConverterEntry(f"{_MODULES}.word:convert", needs=("html_to_markdown",))
_SHEETS = ConverterEntry(
    f"{_MODULES}.sheets:convert",
    (MARKDOWN, CSV),
    "sheets",
    ("sheet", "rows", "columns"),
    needs=("python_calamine", "html_to_markdown"),
)
_SLIDES = ConverterEntry(f"{_MODULES}.slides:convert", unit="slides", needs=("html_to_markdown",))
_PARQUET = f"{_MODULES}.parquet:convert"
"""Its workers may open their document by its name, so each has one."""
CHARTS = f"{_MODULES}.charts:convert"
"""The converter of Vega-Lite specifications, which come from no folder; of the extra `charts`."""
_APART = (_PARQUET, CHARTS)
"""Converters whose workers have limits of their own."""
_ROWS = ("rows", "columns")
_COMPRESSED = ConverterEntry(
    f"{_MODULES}.compressed:convert", (TEXT,), "parts", options=("encoding",), is_verbatim=True
)
_ARCHIVES = (".tgz", ".tbz2", ".txz", ".tzst")
PLAIN_TEXT = ConverterEntry(f"{_MODULES}.encodings:convert", (TEXT,), options=("encoding",))
"""The converter of text in another encoding than the folder's; its parts name the encoding."""
_BY_SUFFIX: Mapping[str, ConverterEntry] = {
    "pdf": ConverterEntry(
        f"{_MODULES}.pdf:convert", (MARKDOWN, _PNG), "pages", needs=("pypdfium2", "PIL")
    ),
    "docx docm dotx dotm odt ott odm fodt": _WORD,
    "xlsx xlsm xltx xltm xlam xlsb xls ods ots fods": _SHEETS,
    "pptx pptm potx potm ppsx ppsm odp otp fodp odg otg fodg": _SLIDES,
    "epub": ConverterEntry(
        f"{_MODULES}.epub:convert", unit="chapters", needs=("html_to_markdown",)
    ),
    "html xhtml": ConverterEntry(f"{_MODULES}.html:convert", needs=("html_to_markdown",)),
    "ipynb": ConverterEntry(
        f"{_MODULES}.notebook:convert", (MARKDOWN, _PNG), "cells", is_verbatim=True
    ),
    "eml mht": ConverterEntry(f"{_MODULES}.mail:convert", is_verbatim=True),
    "csv tsv jsonl ndjson": ConverterEntry(
        f"{_MODULES}.delimited:convert", (MARKDOWN, _JSON, CSV), options=_ROWS
    ),
    "parquet": ConverterEntry(_PARQUET, (MARKDOWN, _JSON, CSV), options=_ROWS, needs=("duckdb",)),
    "arrow arrows": ConverterEntry(
        f"{_MODULES}.arrow:convert", (MARKDOWN, _JSON, CSV), options=_ROWS, needs=("nanoarrow",)
    ),
    "gz bz2 xz": _COMPRESSED,
    "zst": msgspec.structs.replace(_COMPRESSED, needs=(ZSTD,)),
    "png jpg gif webp tiff bmp": ConverterEntry(
        f"{_MODULES}.images:convert", (_WEBP, _PNG), options=("max",), needs=("PIL",)
    ),
}
_BUILT_IN: Mapping[str, ConverterEntry] = {
    media_types.from_name(f".{suffix}") or suffix: entry
    for suffixes, entry in _BY_SUFFIX.items()
    for suffix in suffixes.split()
}

PARAMETERS: frozenset[str] = frozenset(
    (
        "format",
        *(entry.unit for entry in _BUILT_IN.values() if entry.unit is not None),
        *(option for entry in (*_BUILT_IN.values(), PLAIN_TEXT) for option in entry.options),
    )
)
"""URI parameters of conversions."""


class Converters:
    """The converters that a folder offers: all, or those of some media types."""

    def __init__(self, media_types: Collection[str] | None = None) -> None:
        self._only = None if media_types is None else frozenset(media_types)
        self._known: dict[str | None, ConverterEntry | None] = {}
        """The converters found so far, by media type; None for a type that has none."""
        self.without = set[str | None]()
        """Media types that were looked up, and have no converter."""

    def __bool__(self) -> bool:
        """Whether any may be offered."""
        return self._only is None or bool(self._only)

    def is_known(self, media_type: str | None) -> bool:
        """Return whether the converter of a media type is known without a look at packages."""
        return media_type in self._known or not self or has_found_packages()

    def of(self, media_type: str | None, name: str = "") -> ConverterEntry | None:
        """Return the converter of a document, if there is one whose packages are installed.

        The name tells what a compressed document is; binary ones have the converter for what is
        inside.
        """
        found = self._available(media_type)
        if found is None or found.reference != _COMPRESSED.reference:
            return found
        if name.lower().endswith(_ARCHIVES):
            return None
        inside = media_types.from_name(name.rpartition(".")[0])
        plain = None if inside is None else self._available(inside)
        is_binary = inside is not None and media_types.is_binary(inside)
        if plain is None or not _is_read_from_memory(plain):
            return None if is_binary else found
        plain = msgspec.structs.replace(plain, reference=found.reference, inside=inside)
        if is_binary:
            return plain
        formats = (TEXT, *plain.formats)
        return msgspec.structs.replace(plain, formats=formats, others=found)

    def _available(self, media_type: str | None) -> ConverterEntry | None:
        if media_type in self._known:
            return self._known[media_type]
        found = self._entry(media_type)
        if found is not None and not found.is_available:
            found = None
        if len(self._known) < _MAX_TYPES:
            self._known[media_type] = found
            if found is None:
                self.without.add(media_type)
        return found

    def missing(self, media_type: str | None) -> Sequence[str]:
        """Return the modules that the converter of a media type waits for."""
        found = self._entry(media_type)
        return () if found is None else found.missing

    def entries(self) -> Mapping[str, ConverterEntry]:
        """Return the converters by media type, whether their packages are installed or not."""
        if not self:
            return {}
        only = self._only
        return {name: each for name, each in entries().items() if only is None or name in only}

    def _entry(self, media_type: str | None) -> ConverterEntry | None:
        bare = (media_type or "").partition(";")[0].strip().lower()
        return None if self._only is not None and bare not in self._only else entries().get(bare)


@functools.lru_cache(maxsize=1)
def entries() -> Mapping[str, ConverterEntry]:
    """Return all converters by media type, also those whose packages are not installed.

    The first call looks at all installed packages.
    """
    found = dict(_BUILT_IN)
    for each in extras.entry_points(GROUP):
        name = each.name.lower()
        version = each.dist.version if each.dist is not None else ""
        found[name] = _added(each.value, version, _BUILT_IN.get(name))
    return found


def _added(reference: str, version: str, known: ConverterEntry | None) -> ConverterEntry:
    """Return a converter of another package, which makes Markdown in place of a built-in one."""
    if known is None:
        return ConverterEntry(reference, version=version)
    others = tuple(each for each in known.formats if each != MARKDOWN) if known.is_available else ()
    all_others = (*others, Format(SHEET_NAMES, TEXT.mime_type))
    return ConverterEntry(
        reference,
        (MARKDOWN, *others),
        known.unit,
        known.options,
        version=version,
        others=msgspec.structs.replace(known, formats=all_others) if others else None,
    )


def is_built_in(reference: str) -> bool:
    """Return whether a converter is one of this package."""
    return reference.startswith(f"{_MODULES}.")


def _is_read_from_memory(entry: ConverterEntry) -> bool:
    """Return whether a converter takes a document that is no file, such as a decompressed one."""
    return is_built_in(entry.reference) and entry.reference not in (
        _PARQUET,
        _COMPRESSED.reference,
    )


def function_inside(media_type: str) -> str:
    """Return the converter, as `module:name`, of a document that was decompressed."""
    return _BUILT_IN[media_type].reference


def share_worker(first: str, second: str) -> bool:
    """Return whether one worker may serve two converters, one after the other.

    Those of other packages have theirs to themselves: their modules may not be readable to another.
    """
    if first == second:
        return True
    if first in _APART or second in _APART:
        return False
    return is_built_in(first) and is_built_in(second)


def find_packages() -> None:
    """Look at the installed packages, so that no request has to. Blocks; for a thread."""
    for entry in entries().values():
        entry.is_available  # noqa: B018  The result is kept.


def has_found_packages() -> bool:
    """Return whether the installed packages have been looked at."""
    return entries.cache_info().currsize > 0


def media_type_of(kind: str) -> str | None:
    """Return the media type of a kind of document, as `pdf` or as a media type.

    None if there is no converter for it, even one whose packages are missing.
    """
    folded = kind.lower()
    return _kinds(_BUILT_IN).get(folded) or _kinds(entries()).get(folded)


def short_name(media_type: str) -> str:
    """Return what a media type is called: the usual suffix of its documents, if there is one."""
    return next(iter(media_types.suffixes(media_type)), media_type)


def counted_kinds(counts: Mapping[str, int]) -> str:
    """Return numbers of documents by media type as text, the most first: `8 pdf, 4 docx`."""
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    return ", ".join(f"{count:,} {short_name(name)}" for name, count in ordered)


def known_kinds() -> Sequence[str]:
    """Return the short names of the documents that the built-in converters are for."""
    return sorted(name for name in _kinds(_BUILT_IN) if "/" not in name)


def _kinds(converters: Mapping[str, ConverterEntry]) -> Mapping[str, str]:
    """Return the media types of converters by each of their names."""
    return {name: each for each in converters for name in (*media_types.suffixes(each), each)}


_is_installed = functools.lru_cache(maxsize=64)(extras.is_installed)
