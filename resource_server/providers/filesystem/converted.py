"""Other formats of a folder's documents: which there are, their URI parameters, and their content.

A document keeps its own media type and bytes; another format is read with `format=`. The text of a
conversion is read in ranges as that of any document.
"""

from __future__ import annotations

import functools
import os
import tempfile
import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import msgspec

from resource_server import media_types, uris
from resource_server.conversion import registry
from resource_server.conversion.disk_cache import DiskCache
from resource_server.conversion.intervals import parse_interval
from resource_server.conversion.pool import WORKERS, Conversion, ConverterPool
from resource_server.conversion.registry import ConverterEntry, Converters
from resource_server.errors import ConversionError, InvalidParameter, ResourceBusy
from resource_server.provider import Content, Truncation
from resource_server.provider.conversion import ConversionRequest
from resource_server.providers.filesystem import content
from resource_server.providers.filesystem.directory import WeightedLru, is_fresh, stamp
from resource_server.providers.filesystem.ranges import Range, parse_range, refuse_unknown
from resource_server.runtime.extras import operator_hint

FORMAT = "format"
ENCODING = "encoding"
SHEET = "sheet"
ROWS = "rows"
_ROW_STARTS = ("|", "[")
"""How a row begins, in Markdown and in JSON."""
_MAX_CACHED = 32 * 1024 * 1024
"""Maximum characters of conversions kept in memory."""
_MAX_FAILURES = 256 * 1024
"""Maximum characters of failures kept in memory."""
_SEARCH_S = 1.0
"""Maximum time of one conversion for a search or a completion, which answer within seconds."""
_MAX_OPTION = 1000
_WEIGHT = 1000


class Wanted(msgspec.Struct, frozen=True):
    """A conversion that a URI asks for, and the range of its text."""

    converter: ConverterEntry
    request: ConversionRequest
    range: Range | None = None


RECODED = Wanted(registry.PLAIN_TEXT, ConversionRequest(media_type="text/plain", format="text"))
"""The text of a document that is in another encoding than the folder's, by a guess."""


class ConvertedDocuments:
    """Conversions of documents, cached by version. Any thread may call any method."""

    def __init__(
        self, pool: ConverterPool, converters: Converters, disk: DiskCache | None = None
    ) -> None:
        self._pool = pool
        self.converters = converters
        self._disk = disk
        self._cache: WeightedLru[tuple[object, ...], Conversion] = WeightedLru(
            _MAX_CACHED, lambda conversion: _WEIGHT + conversion.size
        )
        self._failures: WeightedLru[tuple[object, ...], str] = WeightedLru(_MAX_FAILURES, len)
        """Why documents cannot be converted, within their time."""
        self._running: dict[tuple[object, ...], Future[Conversion]] = {}
        self._lock = threading.Lock()

    def text_of(self, types: tuple[tuple[str, str], ...]) -> ConvertedText:
        """Return the text of documents for a search; `types` are those of the folder's options."""
        return ConvertedText(self, types)

    def wanted(self, query: Mapping[str, str], media_type: str | None) -> Wanted:
        """Return the conversion that URI parameters ask for.

        Raises:
            InvalidParameter: no such format or parameter; the message names the known ones.
        """
        return parse_wanted(query, media_type, self.converters)

    def read(self, fd: int, wanted: Wanted, *, is_now: bool = False) -> Content:
        """Return a converted document, or the range of its text. Blocks.

        Raises:
            BlockingIOError: with `is_now`, it has to be converted first.
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
            InvalidParameter: the document does not have the parts asked for.
        """
        conversion = self.convert(fd, wanted, is_now=is_now)
        if not conversion.parts:
            return self._nothing(fd, wanted)
        first = conversion.parts[0]
        if isinstance(first.data, bytes):
            return Content(first.data, first.mime_type)
        if conversion.is_cut:
            return _cut(conversion, wanted)
        return _in_range(_joined(conversion), first.mime_type, wanted.range)

    def _nothing(self, fd: int, wanted: Wanted) -> Content:
        """Return the content of a document without parts.

        Raises:
            InvalidParameter: only those parts that were asked for are not there.
        """
        request, unit = wanted.request, wanted.converter.unit
        if request.first == 1 and not request.options:
            formats = wanted.converter.formats
            mime_type = next(each.mime_type for each in formats if each.name == request.format)
            return _in_range(b"", mime_type, wanted.range)
        said = f"the document has no such {unit or next(iter(request.options), 'part')}"
        if request.first > 1:
            start = msgspec.structs.replace(request, first=1, last=1)
            with suppress(ConversionError, ResourceBusy):
                total = self.convert(fd, msgspec.structs.replace(wanted, request=start)).total
                said = said if total is None else f"{said}: it has {total}"
        raise InvalidParameter(said)

    def sheet_names(self, fd: int, media_type: str | None) -> Sequence[str]:
        """Return the names of the sheets of a workbook; none of any other document. Blocks.

        Raises:
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
        """
        converter = self.converters.of(media_type)
        if converter is None or SHEET not in converter.options:
            return ()
        request = ConversionRequest(media_type=media_type or "", format=registry.SHEET_NAMES)
        found = self.convert(fd, Wanted(converter.of(request.format), request), time_s=_SEARCH_S)
        return [str(part.data) for part in found.parts]

    def convert(
        self, fd: int, wanted: Wanted, *, time_s: float | None = None, is_now: bool = False
    ) -> Conversion:
        """Return a conversion, made within `time_s`. Blocks; raises as `read`.

        Callers who ask for the same at the same time share one conversion.
        """
        status = os.fstat(fd)
        request = wanted.request
        key = (
            *(stamp(status), wanted.converter.reference, wanted.converter.version),
            *(request.format, request.first, request.last, *sorted(request.options.items())),
        )
        found = self._kept(key, time_s)
        if found is not None:
            return found
        if is_now:
            raise BlockingIOError
        own: Future[Conversion] = Future()
        with self._lock:
            running = self._running.setdefault((time_s, *key), own)
        if running is not own:
            return running.result()
        try:
            # A document that changes once more within a tick of the clock has the same stamp.
            found = self._made(fd, wanted, key, time_s, is_lasting=not is_fresh(status))
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            own.set_result(found)
            return found
        finally:
            with self._lock:
                del self._running[(time_s, *key)]

    def _kept(self, key: tuple[object, ...], time_s: float | None) -> Conversion | None:
        """Return a conversion from memory or from the disk, or None.

        Raises:
            ConversionError: the document could not be converted before.
        """
        found = self._cache.get(key)
        if found is not None:
            return found
        failure = self._failures.get((time_s, *key))
        if failure is not None:
            raise ConversionError(failure)
        found = None if self._disk is None else self._disk.get(key)
        if found is not None:
            self._cache.put(key, found)
        return found

    def _made(
        self,
        fd: int,
        wanted: Wanted,
        key: tuple[object, ...],
        time_s: float | None,
        *,
        is_lasting: bool,
    ) -> Conversion:
        """Return a conversion from the pool; keep it if it `is_lasting`."""
        os.lseek(fd, 0, os.SEEK_SET)
        try:
            found = self._pool.convert(
                wanted.converter.reference, fd, wanted.request, time_s=time_s
            )
        except ConversionError as error:
            if is_lasting:
                self._failures.put((time_s, *key), str(error))
            raise
        if is_lasting and key[0] == stamp(os.fstat(fd)):
            self._cache.put(key, found)
            if self._disk is not None:
                self._disk.put(key, found)
        return found

    def prepare(self, fd: int, wanted: Wanted, *, time_s: float) -> None:
        """Begin a conversion in another thread, and close `fd` after it."""

        def work() -> None:
            try:
                with suppress(ConversionError, ResourceBusy, OSError):
                    self.convert(fd, wanted, time_s=time_s)
            finally:
                os.close(fd)

        self._ahead.submit(work)

    @functools.cached_property
    def _ahead(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WORKERS - 1, thread_name_prefix="conversion")


class PlacedText(msgspec.Struct, frozen=True):
    """The text of a converted document, in UTF-8, and where its parts begin."""

    data: bytes
    begins: Sequence[int]
    """Number of the first line of each part."""
    names: Sequence[str]
    """What each part is called."""
    is_cut: bool = False
    """Whether the document goes on."""

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
            if unit is not None and unit != "parts":
                begins.append(line)
                names.append(f"{unit.removesuffix('s')} {part.number}")
            line += f"{part.data!s}{_between(conversion)}".count("\n")
        return PlacedText(_joined(conversion), begins, names, is_cut=conversion.is_cut)

    def prepare(self, fd: int, name: str) -> None:
        """Begin to convert a document whose text is wanted soon; `fd` is closed after it."""
        wanted = self._wanted(name)
        if wanted is None:
            os.close(fd)
        else:
            self._documents.prepare(fd, wanted, time_s=_SEARCH_S)

    def recoded(self, fd: int) -> bytes:
        """Return the text of an open document in another encoding, by a guess. Blocks.

        Raises as `text`.
        """
        return _joined(self._documents.convert(fd, RECODED, time_s=_SEARCH_S))

    def _wanted(self, name: str) -> Wanted | None:
        media_type = media_types.from_name(name, self._types)
        if media_type is None or not media_types.is_encoded(media_type):
            return None
        converter = self._documents.converters.of(media_type)
        if converter is None or converter.formats[0].mime_type.startswith("image/"):
            return None
        request = ConversionRequest(media_type=media_type, format=converter.formats[0].name)
        return Wanted(converter.of(request.format), request)


def parse_wanted(
    query: Mapping[str, str], media_type: str | None, converters: Converters
) -> Wanted:
    """Return the conversion that URI parameters ask for.

    Raises:
        InvalidParameter: no such format or parameter; the message names the known ones.
    """
    converter = converters.of(media_type)
    if _is_recoding(query, media_type, converter) and converters:
        converter = registry.PLAIN_TEXT
    if converter is None:
        missing = converters.missing(media_type)
        if missing and not registry.PARAMETERS.isdisjoint(query):
            raise InvalidParameter(
                f"this server cannot convert the document; {operator_hint('documents')}"
            )
        if converters and FORMAT in query and media_types.is_text(media_type or ""):
            raise InvalidParameter(
                f"format cannot be {query[FORMAT][:40]!r}: this document takes lines, bytes or"
                " tail; format=text guesses its encoding"
            )
        refuse_unknown(query, ())
        raise InvalidParameter("this document has no other format")
    unit = () if converter.unit is None else (converter.unit,)
    other_name = ("pages",) if unit else ()  # the tools say `pages` of any unit
    refuse_unknown(query.keys() - other_name, (FORMAT, *unit, *converter.options))
    given = {name: value for name, value in query.items() if name in registry.PARAMETERS}
    name = given.pop(FORMAT, converter.formats[0].name)
    names = [each.name for each in converter.formats]
    if name not in names:
        raise InvalidParameter(f"format cannot be {name[:40]!r}; write {' or '.join(names)}")
    is_picture = name in ("png", "webp")
    first, last = 1, 1 if is_picture else None
    asked = [each for each in dict.fromkeys((*unit, *other_name)) if each in given]
    if len(asked) > 1:
        raise InvalidParameter(f"give {' or '.join(asked)}, not both")
    for each in asked:
        first, last = parse_interval(each, given.pop(each))
        if is_picture and last != first:
            raise InvalidParameter(f"{name} is one picture at a time; write {each}={first}")
    _check_options(given)
    request = ConversionRequest(
        media_type=media_type or "", format=name, first=first, last=last, options=given
    )
    rest = {each: value for each, value in query.items() if each not in registry.PARAMETERS}
    range = parse_range(rest) if rest else None
    if is_picture and range is not None:
        raise InvalidParameter(f"{name} is read whole; leave out {', '.join(rest)}")
    return Wanted(converter.of(name), request, range)


def _check_options(given: Mapping[str, str]) -> None:
    for option, value in given.items():
        if len(value) > _MAX_OPTION:
            raise InvalidParameter(f"{option} is too long")
        if option == ROWS:
            parse_interval(option, value)


def _is_recoding(
    query: Mapping[str, str], media_type: str | None, converter: ConverterEntry | None
) -> bool:
    """Return whether a URI asks for text in another encoding, of a document that may be text."""
    is_asked = ENCODING in query or query.get(FORMAT) == registry.TEXT.name
    may_be_text = media_type is None or not media_types.is_binary(media_type)
    return is_asked and may_be_text and (converter is None or ENCODING not in converter.options)


def _cut(conversion: Conversion, wanted: Wanted) -> Content:
    """Return the text of a conversion that was cut, or the range of it, with the way to the rest.

    It ends with a whole part, row or line.

    Raises:
        InvalidParameter: its last lines are asked for.
    """
    *before, last = conversion.parts
    following: dict[str, str] | None = None
    request, converter = wanted.request, wanted.converter
    text = str(last.data)
    text = text[: text.rfind("\n") + 1] or text
    if converter.unit is not None and before:
        until = "" if request.last is None else str(request.last)
        following = {converter.unit: f"{last.number}-{until}"}
        text = ""
    elif converter.unit is None and ROWS in converter.options:
        _, _, until = request.options.get(ROWS, "").partition("-")
        rows = sum(line.startswith(_ROW_STARTS) for line in text.splitlines())
        # The first two lines of a Markdown table are no rows.
        read = last.number + max(rows - (0 if request.format == "json" else 2), 0)
        following = {ROWS: f"{read}-{until}"}
        if request.format == "json":
            text = f"{text.rstrip().rstrip(',')}]}}"
    if following is not None:
        following = {FORMAT: request.format, **request.options, **following}
    end = Truncation("limit", "characters", None, following)
    kept = (*before, msgspec.structs.replace(last, data=text)) if text else tuple(before)
    if wanted.range is not None and wanted.range.unit == "tail":
        way = "" if following is None else f"; read on with {uris.with_query('', following)}"
        raise InvalidParameter(f"the text is too long for tail{way}")
    whole = _joined(msgspec.structs.replace(conversion, parts=kept))
    found = _in_range(whole, last.mime_type, wanted.range)
    if found.truncated is None or found.truncated.next is None:
        return msgspec.structs.replace(found, truncated=end)
    return msgspec.structs.replace(
        found, truncated=msgspec.structs.replace(found.truncated, total=None)
    )


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
    text = _between(conversion).join(str(part.data) for part in conversion.parts)
    # With a zero byte it would be no text.
    return text.replace("\0", "\ufffd").encode("utf-8", "replace")


def _between(conversion: Conversion) -> str:
    """Return what stands between parts: those of plain text end with a line of their own."""
    is_plain = conversion.parts and conversion.parts[0].mime_type.startswith("text/plain")
    return "" if is_plain else "\n"


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("converted")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
