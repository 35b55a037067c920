"""Other formats of a folder's documents: which there are, their URI parameters, and their content.

A document keeps its own media type and bytes; another format is read with `format=`. The text of a
conversion is read in ranges as that of any document.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from resource_server import media_types
from resource_server.conversion import registry
from resource_server.conversion.disk_cache import DiskCache
from resource_server.conversion.pool import WORKERS, Conversion, ConverterPool
from resource_server.conversion.registry import ConverterEntry, Converters
from resource_server.conversion.text_window import between
from resource_server.errors import (
    ConversionError,
    ConversionTooSlow,
    InvalidParameter,
    ResourceBusy,
)
from resource_server.provider import Content, Resource
from resource_server.provider.conversion import ConversionRequest
from resource_server.providers.filesystem import converted_range
from resource_server.providers.filesystem.conversion_query import (
    RECODED,
    ROWS,
    SHEET,
    Wanted,
    parse_wanted,
)
from resource_server.providers.filesystem.directory import WeightedLru, is_fresh, stamp
from resource_server.runtime import markdown
from resource_server.runtime.document_range import Range
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.search.text_match import Check

_MAX_CACHED = 32 * 1024 * 1024
"""Maximum characters of conversions kept in memory."""
_MAX_FAILURES = 256 * 1024
"""Maximum characters of failures kept in memory."""
_NAMES_S = 1.0
"""Maximum time to find the names of sheets, which a completion waits for."""
_LONG_S = 15.0
"""Maximum time of one that goes on behind a search."""
_POLL_S = 0.05
_MAX_BEHIND = 20
"""Maximum conversions that go on, or wait, behind searches."""
_PARTS = 100
"""Pages or slides converted at a time of a document that is too long for one conversion."""
_WEIGHT = 1000
_MAX_WINDOWS = 1000
"""Maximum windows of long texts whose places are kept, and of one text."""
_WINDOWS = 8


class NotConvertedYet(Exception):
    """A document is being converted, or is still to be: a later search has it."""

    def __init__(self, *, is_begun: bool = False) -> None:
        super().__init__()
        self.is_begun = is_begun
        """Whether an earlier search has begun the conversion."""


class ConvertedDocuments:
    """Conversions of documents, cached by version. Any thread may call any method."""

    def __init__(
        self,
        pool: ConverterPool,
        converters: Converters,
        disk: DiskCache | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._pool = pool
        self.converters = converters
        self._disk = disk
        self.timing = timing
        self._cache: WeightedLru[tuple[object, ...], Conversion] = WeightedLru(
            _MAX_CACHED, lambda conversion: _WEIGHT + conversion.size
        )
        self._failures: WeightedLru[tuple[object, ...], _KnownFailure] = WeightedLru(
            _MAX_FAILURES, lambda failure: len(failure.said)
        )
        """Why documents cannot be converted, within their time."""
        self._starts: WeightedLru[tuple[object, ...], tuple[Range, ...]] = WeightedLru(
            _MAX_WINDOWS, len
        )
        """Where the windows begin that were read last of long texts."""
        self._running: dict[tuple[object, ...], Future[Conversion]] = {}
        self._shared: dict[tuple[object, ...], _SharedConversion] = {}
        self._lock = threading.Lock()
        self._behind = set[tuple[object, ...]]()
        self._prepared = threading.Semaphore(WORKERS)
        self._starting: Future[None] | None = None
        """The start of a worker that the next conversion waits for."""

    def text_of(self, types: tuple[tuple[str, str], ...]) -> ConvertedText:
        """Return the text of documents for a search; `types` are those of the folder's options."""
        return ConvertedText(self, types)

    def wanted(self, query: Mapping[str, str], media_type: str | None, name: str = "") -> Wanted:
        """Return the conversion that URI parameters ask for of a document of a type and a name.

        Raises:
            InvalidParameter: no such format or parameter; the message names the known ones.
        """
        return parse_wanted(query, media_type, name, self.converters)

    def read(self, fd: int, wanted: Wanted, *, is_now: bool = False) -> Content:
        """Return a converted document, or the range of its text. Blocks.

        Raises:
            BlockingIOError: with `is_now`, it has to be converted first.
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
            InvalidParameter: the document does not have the parts asked for.
        """
        range = wanted.range
        if range is None:
            conversion = self.convert(fd, wanted, is_now=is_now)
        else:
            conversion = self._window(fd, wanted, range, is_now=is_now)
        if not any(part.data for part in conversion.parts):
            conversion = self.convert(fd, wanted, is_now=is_now)
        if not conversion.parts:
            return self._nothing(fd, wanted)
        first = conversion.parts[0]
        if isinstance(first.data, bytes):
            return Content(first.data, first.mime_type)
        if conversion.is_cut and range is None:
            return converted_range.text_beginning(conversion, wanted)
        return converted_range.content(conversion, first.mime_type, wanted)

    def _window(self, fd: int, wanted: Wanted, range: Range, *, is_now: bool) -> Conversion:
        """Return a part of a text in which a range begins, or all of it; as `read`."""
        key = self._key(os.fstat(fd), wanted)
        starts = self._starts.get(key) or ()
        for known in ((), *((each.unit, each.first) for each in starts)):
            found = self._kept((*key, *known), None)
            if found is not None and converted_range.has(found, range):
                return found
        start = Range(range.unit, 0 if range.unit == "tail" else range.first)
        found = self.convert(fd, msgspec.structs.replace(wanted, start=start), is_now=is_now)
        self._starts.put(key, (start, *(each for each in starts[:_WINDOWS] if each != start)))
        return found

    def _nothing(self, fd: int, wanted: Wanted) -> Content:
        """Return the content of a document without parts.

        Raises:
            InvalidParameter: only those parts that were asked for are not there.
        """
        request, unit = wanted.request, wanted.converter.unit
        if request.first == 1 and not request.options:
            formats = wanted.converter.formats
            mime_type = next(each.mime_type for each in formats if each.name == request.format)
            return converted_range.content(Conversion(()), mime_type, wanted)
        option = ROWS if ROWS in request.options else next(iter(request.options), "part")
        said = f"the document has no such {unit or option}"
        if request.first > 1 or ROWS in request.options:
            start = msgspec.structs.replace(request, first=1, last=1, options={})
            with suppress(ConversionError, ResourceBusy):
                total = self.convert(fd, msgspec.structs.replace(wanted, request=start)).total
                said = said if total is None else f"{said}: it has {total}"
        raise InvalidParameter(said)

    def sheet_names(self, fd: int, media_type: str | None, name: str) -> Sequence[str]:
        """Return the names of the sheets of a workbook; none of any other document. Blocks.

        Raises:
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
        """
        converter = self.converters.of(media_type, name)
        if converter is None or SHEET not in converter.options:
            return ()
        inside = converter.inside or media_type or ""
        request = ConversionRequest(media_type=inside, format=registry.SHEET_NAMES)
        found = self.convert(fd, Wanted(converter.of(request.format), request), time_s=_NAMES_S)
        return [str(part.data) for part in found.parts]

    def convert(
        self, fd: int, wanted: Wanted, *, time_s: float | None = None, is_now: bool = False
    ) -> Conversion:
        """Return a conversion, made within `time_s`. Blocks; raises as `read`.

        Callers who ask for the same at the same time share one conversion.
        """
        status = os.fstat(fd)
        key = self._key(status, wanted)
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

    @staticmethod
    def _key(status: os.stat_result, wanted: Wanted) -> tuple[object, ...]:
        request, start = wanted.request, wanted.start
        return (
            *(stamp(status), wanted.converter.reference, wanted.converter.version),
            *(request.media_type, request.format, request.first, request.last),
            *sorted(request.options.items()),
            *(() if start is None else (start.unit, start.first)),
        )

    def _kept(self, key: tuple[object, ...], time_s: float | None) -> Conversion | None:
        """Return a conversion from memory or from the disk, or None.

        Raises:
            ConversionError: the document could not be converted before.
        """
        found = self._cache.get(key)
        if found is not None:
            return found
        failure = self._failures.get((time_s, *key))
        if failure is not None and time.monotonic() < failure.until:
            raise failure.kind(failure.said)
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
        begun = time.monotonic()
        if self._starting is not None:
            wait([self._starting], time_s)
        waited_s = time.monotonic() - begun
        try:
            found = self._pool.convert(
                wanted.converter.reference,
                fd,
                wanted.request,
                time_s=None if time_s is None else max(time_s - waited_s, 0.0),
                start=wanted.start,
                is_one=wanted.is_picture,
            )
        except ConversionTooSlow as error:
            parts = wanted.converter.parameters
            said = f"{error}; read a part: {parts}" if parts else str(error)
            # Without a limit, or with a short one, another try may be in time.
            if is_lasting and time_s is not None and time_s >= _LONG_S:
                until = time.monotonic() + self.timing.conversion_retry_s
                self._failures.put((time_s, *key), _KnownFailure(ConversionTooSlow, said, until))
            raise ConversionTooSlow(said) from None
        except ConversionError as error:
            if is_lasting:
                self._failures.put((time_s, *key), _KnownFailure(ConversionError, str(error)))
            raise
        if is_lasting and key[0] == stamp(os.fstat(fd)):
            self._cache.put(key, found)
            if self._disk is not None:
                self._disk.put(key, found)
        return found

    def soon(self, fd: int, wanted: Wanted) -> Conversion:
        """Return a conversion made within `search_convert_s`; a longer one goes on behind it.

        Raises:
            NotConvertedYet: it takes longer, or too many others do.
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
        """
        key = self._key(os.fstat(fd), wanted)
        found = self._kept(key, _LONG_S)
        if found is not None:
            return found
        with self._lock:
            is_begun = key in self._behind or (_LONG_S, *key) in self._running
            is_full = len(self._behind) >= _MAX_BEHIND
        if is_begun or is_full:
            raise NotConvertedYet(is_begun=is_begun)
        try:
            return self.convert(fd, wanted, time_s=self.timing.search_convert_s)
        except ConversionTooSlow:
            with self._lock:
                if key not in self._behind:
                    self._behind.add(key)
                    ended = partial(self._behind.discard, key)
                    self._in_thread(self._ahead, os.dup(fd), wanted, ended)
            raise NotConvertedYet from None

    @contextmanager
    def awaited(self, fd: int, wanted: Wanted) -> Generator[Future[Conversion]]:
        """Give a conversion in another thread, which waits for none of those behind searches.

        Callers that await the same share it. It ends with the last caller, unless it has begun.
        """
        key = self._key(os.fstat(fd), wanted)
        with self._lock:
            shared = self._shared.get(key)
            if shared is None:
                own = os.dup(fd)
                ended = partial(self._shared.pop, key)
                future = self._in_thread(self._awaited, own, wanted, ended)
                shared = self._shared[key] = _SharedConversion(future, own)
            shared.searches += 1
        try:
            yield shared.future
        finally:
            with self._lock:
                shared.searches -= 1
                if not shared.searches and shared.future.cancel():
                    del self._shared[key]
                    os.close(shared.fd)

    def expect(self, wanted: Wanted) -> None:
        """Start a worker in another thread, for the first conversion, unless there is one."""
        if not self._pool.counts.workers:
            self._starting = self._ahead.submit(self._pool.start, wanted.converter.reference)

    def prepare(self, fd: int, wanted: Wanted) -> None:
        """Begin a conversion in another thread, unless many have begun; `fd` is closed after it.

        A few short ones are left out: another worker takes longer to start than to convert them.
        """
        if self._pool.is_worth_two and self._prepared.acquire(blocking=False):
            time_s = self.timing.search_convert_s
            self._in_thread(self._ahead, fd, wanted, self._prepared.release, time_s)
        else:
            os.close(fd)

    def _in_thread(
        self,
        threads: ThreadPoolExecutor,
        fd: int,
        wanted: Wanted,
        ended: Callable[[], object],
        time_s: float = _LONG_S,
    ) -> Future[Conversion]:
        """Begin a conversion in another thread; after it, `fd` is closed and `ended` called."""

        def work() -> Conversion:
            try:
                return self.convert(fd, wanted, time_s=time_s)
            finally:
                os.close(fd)
                with self._lock:
                    ended()

        return threads.submit(work)

    @functools.cached_property
    def _ahead(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WORKERS - 1, thread_name_prefix="conversion")

    @functools.cached_property
    def _awaited(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WORKERS, thread_name_prefix="awaited conversion")


def with_formats(
    resource: Resource, converter: ConverterEntry, has_picture: Callable[[Resource], bool]
) -> Resource:
    """Return a document with the formats of its converter.

    `has_picture` is true for notebooks that may have one.
    """
    details = {"parameters": converter.parameters} if converter.parameters else None
    formats = converter.formats
    if converter.unit == "cells" and not has_picture(resource):
        formats = tuple([each for each in formats if not each.mime_type.startswith("image/")])
    return replace(resource, formats=formats, details=details)


def with_encoding(
    resource: Resource, found: Content, wanted: Wanted, query: Mapping[str, str]
) -> tuple[Resource, Sequence[Content]]:
    """Return a converted document; of recoded text, the resource names the encoding found."""
    if wanted.converter is not registry.PLAIN_TEXT:
        return resource, (found,)
    type, _, encoding = (found.mime_type or "").partition("; charset=")
    details = {"encoding": encoding, "guessed": "encoding" not in query}
    formats = (*resource.formats, registry.TEXT)
    return replace(resource, formats=formats, details=details), (replace(found, mime_type=type),)


class _KnownFailure(NamedTuple):
    kind: type[ConversionError]
    said: str
    until: float = math.inf
    """When another try may succeed, in the time of `time.monotonic()`."""


class _SharedConversion(msgspec.Struct):
    """A conversion in another thread, its descriptor, and the number of searches that wait."""

    future: Future[Conversion]
    fd: int
    searches: int = 0


class PlacedText(msgspec.Struct, frozen=True):
    """The text of a converted document, in UTF-8, and where its parts begin."""

    data: bytes
    begins: Sequence[int]
    """Number of the first line of each part."""
    names: Sequence[str]
    """What each part is called."""
    is_cut: bool = False
    """Whether the document goes on, and no other text follows."""
    lines_before: int = 0
    parts: int = 1
    pictures: int = 0
    """Number of parts without text, whose pictures may have some."""

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

    def version(self, name: str) -> str:
        """Return what the conversion of a document depends on beside it; empty if it has none."""
        wanted = self._wanted(name)
        if wanted is None:
            return ""
        return f"{wanted.converter.reference} {wanted.converter.version} {wanted.request}"

    def texts(self, fd: int, name: str, check: Check | None) -> Iterator[PlacedText]:
        """Yield the text of an open document, or its beginning without `check`. Blocks.

        With `check`, which may raise, it waits for the end of each conversion, and goes on after
        the first one of a long text.

        Raises:
            NotConvertedYet: it is to be converted, which is not awaited.
            ConversionError, ResourceBusy: as `ConverterPool.convert`.
        """
        wanted = self._wanted(name)
        if wanted is None:
            raise ConversionError("there is no converter for this document")
        return self._texts(fd, wanted, check)

    def recoded(self, fd: int, check: Check | None) -> Iterator[PlacedText]:
        """Yield the text of a document in another encoding, by a guess; as `texts`."""
        return self._texts(fd, RECODED, check)

    def _texts(self, fd: int, wanted: Wanted, check: Check | None) -> Iterator[PlacedText]:
        has_parts = wanted.converter.unit not in (None, "parts")
        try:
            whole = self._conversion(fd, wanted, check)
        except ConversionTooSlow:
            if check is None or not has_parts:
                raise
            whole = None
        if whole is not None and (check is None or not whole.is_cut):
            yield self._placed(whole, wanted, 0)
        elif has_parts:
            yield from self._part_by_part(fd, wanted, check)
        else:
            yield from self._window_by_window(fd, wanted, check)

    def _conversion(self, fd: int, wanted: Wanted, check: Check | None) -> Conversion:
        if check is None:
            return self._documents.soon(fd, wanted)
        with self._documents.awaited(fd, wanted) as running:
            while True:
                with suppress(TimeoutError):
                    return running.result(_POLL_S)
                check()

    def _part_by_part(self, fd: int, wanted: Wanted, check: Check | None) -> Iterator[PlacedText]:
        first, lines = 1, 0
        while True:
            some = replace(wanted.request, first=first, last=first + _PARTS - 1)
            found = self._conversion(fd, replace(wanted, request=some), check)
            is_last = len(found.parts) == 1
            if found.is_cut and not is_last:
                found = Conversion(found.parts[:-1])  # the last is not whole
            if not found.parts:
                return
            yield self._placed(found, wanted, lines)
            lines += converted_range.joined_text(found).count(b"\n")
            lines += between(found.parts[0].mime_type).count("\n")
            first = found.parts[-1].number + 1

    def _window_by_window(
        self, fd: int, wanted: Wanted, check: Check | None
    ) -> Iterator[PlacedText]:
        lines = 0
        while True:
            start = Range("lines", lines + 1)
            found = self._conversion(fd, replace(wanted, start=start), check)
            data = converted_range.joined_text(found)
            place = found.place
            # At the end of the text, a window begins earlier.
            begin = 0
            for _ in range(lines - place.lines_before):
                begin = data.find(b"\n", begin) + 1
            data = data[begin:]
            is_stuck = found.is_cut and b"\n" not in data
            if found.is_cut and not is_stuck:
                data = data[: data.rfind(b"\n") + 1]
            yield PlacedText(data, (), (), is_cut=is_stuck, lines_before=lines)
            if not found.is_cut or is_stuck:
                return
            lines += data.count(b"\n")

    @staticmethod
    def _placed(conversion: Conversion, wanted: Wanted, lines_before: int) -> PlacedText:
        unit = wanted.converter.unit
        begins: list[int] = []
        names: list[str] = []
        line = 1
        for part in conversion.parts:
            if unit is not None and unit != "parts":
                begins.append(line)
                names.append(f"{unit.removesuffix('s')} {part.number}")
            line += f"{part.data!s}{between(conversion.parts[0].mime_type)}".count("\n")
        data = converted_range.joined_text(conversion)
        if not wanted.converter.is_verbatim:
            data = markdown.with_plain_cells(data)
        return PlacedText(
            data,
            begins,
            names,
            conversion.is_cut,
            lines_before,
            len(conversion.parts),
            sum(part.is_picture for part in conversion.parts),
        )

    def expect(self, name: str) -> None:
        """Make ready for the conversion of a document, which takes a while for the first one."""
        wanted = self._wanted(name)
        if wanted is not None:
            self._documents.expect(wanted)

    def prepare(self, fd: int, name: str) -> None:
        """Begin to convert a document whose text is wanted soon; `fd` is closed after it."""
        wanted = self._wanted(name)
        if wanted is None:
            os.close(fd)
        else:
            self._documents.prepare(fd, wanted)

    def _wanted(self, name: str) -> Wanted | None:
        if not self._types and not media_types.may_be_encoded(name):
            return None  # most documents
        media_type = media_types.from_name(name, self._types)
        if media_type is None or not media_types.is_encoded(media_type):
            return None
        converter = self._documents.converters.of(media_type, name)
        if converter is None or converter.formats[0].mime_type.startswith("image/"):
            return None
        format = converter.formats[0].name
        converter = converter.of(format)
        inside = converter.inside or media_type
        return Wanted(converter, ConversionRequest(media_type=inside, format=format))
