"""Other formats of a folder's documents: which there are, their URI parameters, and their content.

A document keeps its own media type and bytes; another format is read with `format=`. The text of a
conversion is read in ranges as that of any document.
"""

from __future__ import annotations

import os
import re
import tempfile
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import msgspec

from resource_server import media_types
from resource_server.conversion import registry
from resource_server.conversion.pool import Conversion, ConverterPool
from resource_server.conversion.registry import ConverterEntry
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider import Content, Truncation
from resource_server.provider.conversion import ConversionRequest
from resource_server.providers.filesystem import content
from resource_server.providers.filesystem.directory import WeightedLru, stamp
from resource_server.providers.filesystem.ranges import Range, parse_range

FORMAT = "format"
_INTERVAL = re.compile(r"([0-9]{1,9})(-([0-9]{1,9})?)?")
_MAX_CACHED = 32 * 1024 * 1024
"""Maximum characters of conversions kept in memory."""
_MAX_FAILURES = 256 * 1024
"""Maximum characters of failures kept in memory."""
_SEARCH_S = 1.0
"""Maximum time of one conversion for a search, whose pages take few seconds."""
_MAX_OPTION = 1000
_ENCODED_TEXT = frozenset(("message/rfc822",))
"""Text whose bytes are not what it says: mail is often in base64."""
_WEIGHT = 1000


class Wanted(msgspec.Struct, frozen=True):
    """A conversion that a URI asks for, and the range of its text."""

    converter: ConverterEntry
    request: ConversionRequest
    range: Range | None = None


class ConvertedDocuments:
    """Conversions of documents, cached by version. Any thread may call any method."""

    def __init__(self, pool: ConverterPool) -> None:
        self._pool = pool
        self._cache: WeightedLru[tuple[object, ...], Conversion] = WeightedLru(
            _MAX_CACHED, lambda conversion: _WEIGHT + conversion.size
        )
        self._failures: WeightedLru[tuple[object, ...], str] = WeightedLru(_MAX_FAILURES, len)
        """Why documents cannot be converted, within their time."""

    def text_of(self, types: tuple[tuple[str, str], ...]) -> ConvertedText:
        """Return the text of documents for a search; `types` are those of the folder's options."""
        return ConvertedText(self, types)

    def wanted(self, query: Mapping[str, str], media_type: str | None) -> Wanted:
        """Return the conversion that URI parameters ask for.

        Raises:
            InvalidParameter: no such format or parameter; the message names the known ones.
        """
        return parse_wanted(query, media_type)

    def read(self, fd: int, wanted: Wanted) -> Content:
        """Return a converted document, or the range of its text. Blocks.

        Raises:
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
            InvalidParameter: the document does not have the parts asked for.
        """
        conversion = self.convert(fd, wanted)
        if not conversion.parts:
            raise InvalidParameter(f"the document has no such {wanted.converter.unit or 'part'}")
        first = conversion.parts[0]
        if isinstance(first.data, bytes):
            return Content(first.data, first.mime_type)
        found = _in_range(_joined(conversion), first.mime_type, wanted.range)
        if found.truncated is None and conversion.is_cut:
            return msgspec.structs.replace(found, truncated=_rest(wanted, conversion))
        return found

    def convert(self, fd: int, wanted: Wanted, *, time_s: float | None = None) -> Conversion:
        """Return a conversion, made within `time_s`. Blocks; raises as `read`."""
        request = wanted.request
        key = (
            *(stamp(os.fstat(fd)), wanted.converter.reference),
            *(request.format, request.first, request.last, *sorted(request.options.items())),
        )
        found = self._cache.get(key)
        if found is None:
            failure = self._failures.get((time_s, *key))
            if failure is not None:
                raise ConversionError(failure)
            os.lseek(fd, 0, os.SEEK_SET)
            try:
                found = self._pool.convert(wanted.converter.reference, fd, request, time_s=time_s)
            except ConversionError as error:
                self._failures.put((time_s, *key), str(error))
                raise
            self._cache.put(key, found)
        return found


class PlacedText(msgspec.Struct, frozen=True):
    """The text of a converted document, in UTF-8, and where its parts begin."""

    data: bytes
    begins: Sequence[int]
    """Number of the first line of each part."""
    names: Sequence[str]
    """What each part is called."""

    def placed(self, line: int, text: str) -> str:
        """Return a line with the name of the part that it is in."""
        at = bisect_right(self.begins, line) - 1
        return text if at < 0 else f"[{self.names[at]}] {text}"


class ConvertedText:
    """The text of documents that are no text themselves. Any thread may call any method."""

    def __init__(self, documents: ConvertedDocuments, types: tuple[tuple[str, str], ...]) -> None:
        self._documents = documents
        self._types = types

    def is_for(self, name: str) -> bool:
        """Return whether a document of this name is searched in its conversion."""
        return self._wanted(name) is not None

    def text(self, fd: int, name: str) -> PlacedText:
        """Return the text of an open document. Blocks.

        Raises:
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
        """
        wanted = self._wanted(name)
        if wanted is None:
            raise ConversionError("there is no converter for this document")
        conversion = self._documents.convert(fd, wanted, time_s=_SEARCH_S)
        unit = wanted.converter.unit
        begins: list[int] = []
        names: list[str] = []
        line = 1
        for part in conversion.parts:
            if unit is not None:
                begins.append(line)
                names.append(f"{unit.removesuffix('s')} {part.number}")
            line += str(part.data).count("\n") + 1
        return PlacedText(_joined(conversion), begins, names)

    def _wanted(self, name: str) -> Wanted | None:
        media_type = media_types.from_name(name, self._types)
        if media_type is None or not (
            media_types.is_binary(media_type) or media_type in _ENCODED_TEXT
        ):
            return None
        converter = registry.converter_of(media_type)
        if converter is None or converter.formats[0].mime_type.startswith("image/"):
            return None
        request = ConversionRequest(media_type=media_type, format=converter.formats[0].name)
        return Wanted(converter, request)


def parse_wanted(query: Mapping[str, str], media_type: str | None) -> Wanted:
    """Return the conversion that URI parameters ask for.

    Raises:
        InvalidParameter: no such format or parameter; the message names the known ones.
    """
    converter = registry.converter_of(media_type)
    if converter is None:
        raise InvalidParameter(_refusal(query, media_type))
    given = {name: value for name, value in query.items() if name in registry.PARAMETERS}
    name = given.pop(FORMAT, converter.formats[0].name)
    names = [each.name for each in converter.formats]
    if name not in names:
        raise InvalidParameter(f"format cannot be {name[:40]!r}; write {' or '.join(names)}")
    first, last = 1, None
    for unit in {converter.unit, "pages"} & given.keys() if converter.unit else ():
        first, last = _interval(unit, given.pop(unit))
    for option, value in given.items():
        if option not in converter.options:
            raise InvalidParameter(
                f"unknown query parameter {option!r}; this document takes {_taken(converter)}"
            )
        if len(value) > _MAX_OPTION:
            raise InvalidParameter(f"{option} is too long")
    if name in ("png", "webp"):
        last = first  # one picture at a time
    request = ConversionRequest(
        media_type=media_type or "", format=name, first=first, last=last, options=given
    )
    rest = {each: value for each, value in query.items() if each not in registry.PARAMETERS}
    return Wanted(converter, request, parse_range(rest) if rest else None)


def _refusal(query: Mapping[str, str], media_type: str | None) -> str:
    name = next(name for name in query if name in registry.PARAMETERS)
    if modules := registry.missing(media_type):
        return f"this server cannot convert the document: {', '.join(modules)} is not installed"
    return f"unknown query parameter {name!r}; this document takes lines, bytes or tail"


def _taken(converter: ConverterEntry) -> str:
    names = [FORMAT, *([converter.unit] if converter.unit else []), *converter.options]
    return ", ".join(names)


def _interval(name: str, value: str) -> tuple[int, int | None]:
    match = _INTERVAL.fullmatch(value)
    first = int(match[1]) if match else 0
    last = None
    if match:
        last = first if match[2] is None else int(match[3]) if match[3] else None
    if not first or (last is not None and last < first):
        raise InvalidParameter(f"{name} cannot be {value[:40]!r}; write {name}=3, 3-7 or 3-")
    return first, last


def _rest(wanted: Wanted, conversion: Conversion) -> Truncation:
    """Return the mark of a conversion that was cut, with the way to what follows."""
    unit, last = wanted.converter.unit, conversion.parts[-1].number
    following: dict[str, str] | None = None
    if unit is not None and last > wanted.request.first:
        until = "" if wanted.request.last is None else str(wanted.request.last)
        following = {FORMAT: wanted.request.format, unit: f"{last}-{until}"}
    return Truncation("limit", "characters", None, following)


def _in_range(text: bytes, mime_type: str, range: Range | None) -> Content:
    """Return a text as a document's content, whole or in a range."""
    fd = _memory_file()
    try:
        os.write(fd, text)
        status = os.fstat(fd)
        found = content.read_content(
            fd, status, mime_type, range, encoding="utf-8", max_size=len(text)
        )
    finally:
        os.close(fd)
    return msgspec.structs.replace(found, mime_type=mime_type)


def _joined(conversion: Conversion) -> bytes:
    return "\n".join(str(part.data) for part in conversion.parts).encode("utf-8", "replace")


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("converted")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
