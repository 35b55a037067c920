"""The tool `read_resource`: a document or a part of it, or a collection with its documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from resource_server import media_types, uris
from resource_server.catalog.read_result import ReadItem, ReadResult, content_size, table_facts
from resource_server.errors import (
    ConversionError,
    InvalidParameter,
    ResourceServerError,
    ResourceTooLarge,
)
from resource_server.protocol import content_blocks, serialization
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools import builtin_schemas, resource_listing
from resource_server.protocol.tools.budget import Budget, characters
from resource_server.protocol.tools.results import tool_result
from resource_server.protocol.tools.table_overview import ROWS, table_overview
from resource_server.protocol.tools.text_range import (
    WHOLE,
    TextPart,
    count_lines,
    lines_of,
    part_of,
)
from resource_server.provider import Content, Truncation
from resource_server.runtime.document_range import UNITS, Range, parse_range

_RECODED = "text"
"""The format of text in another encoding than the one it is expected in."""
_NOTICE_CHARACTERS = 160
"""Characters of a notice, without the URI in it."""
_BLOCK_CHARACTERS = 400
"""Characters of an embedded resource, without its metadata and data."""
_NUMBER = re.compile(r"0*[1-9][0-9]{0,14}", re.ASCII)
_INTERVAL = re.compile(rf"{_NUMBER.pattern}(-[0-9]{{0,9}})?", re.ASCII)
_MAX_ATTEMPTS = 12
"""Maximum reads of a page whose rows do not fit."""
_SHORTEST_CELL = 16
"""Characters to which the values of a row are shortened at most."""

_CURSORS = ("after", "until")
"""URI parameters that say where a page of rows begins or ends."""
_OF_DOCUMENTS = {
    "lines": "lines",
    "tail": "tail",
    "bytes": "byte_range",
    "format": "format",
    "pages": "pages",
    "rows": "rows",
    "number": "number",
}
"""Arguments that only documents take, and the fields that have them."""

_encode = msgspec.json.Encoder().encode


class _PageRows(msgspec.Struct):
    rows: list[msgspec.Raw]


_decode_rows = msgspec.json.Decoder(_PageRows).decode


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `read_resource`; some models write numbers as text, and ranges as numbers."""

    uri: str
    lines: str | int | None = None
    tail: str | int | None = None
    byte_range: str | int | None = msgspec.field(default=None, name="bytes")
    format: str | None = None
    pages: str | int | None = None
    rows: str | int | None = None
    number: bool | None = None


async def read_resource(call: Call, arguments: ReadArguments, *, via_other: bool = False) -> Result:
    """Read a document, a part of it, or the documents of a collection, within the budget.

    `via_other` tool, the calls that go on name this one.

    Raises:
        InvalidParameter: arguments that cannot be used, or not together; says what is right.
        ResourceError: as `Catalog.read`.
    """
    name = f"{call.server.toolbox.settings.prefix}{builtin_schemas.READ} " if via_other else ""
    reader = _Reader(call, arguments, name)
    reading = await reader.read()
    call.note_read(reading)
    if reading.collection is not None:
        content = await table_overview(call, reading) or _collection(call, reading)
    else:
        content = await reader.blocks(reading)
    if reading.items and not content:
        raise ResourceServerError("nothing of this read can be sent")
    return tool_result(call, content)


class _Reader:
    """Reads one document for one call.

    Ranges are read by the provider if it has them (`native`), otherwise cut from the whole text.
    """

    def __init__(self, call: Call, arguments: ReadArguments, name: str) -> None:
        self._call = call
        self._name = name
        """Name of the tool that goes on, unless it is the one that was called."""
        self._arguments = arguments
        self._catalog = call.server.catalog
        self._limit = call.server.toolbox.settings.budget
        self._numbered = bool(arguments.number)
        mount, _, query = self._catalog.route(arguments.uri)
        self._native = mount.provider.parameters.issuperset(UNITS)
        self._pages = "limit" in mount.provider.parameters
        self._recodes = "encoding" in mount.provider.parameters
        self._parameters = dict(query)
        given = {
            "lines": arguments.lines,
            "tail": arguments.tail,
            "bytes": arguments.byte_range,
        }
        self._range = parse_range(given)
        if self._native and (own := {name: query[name] for name in UNITS if name in query}):
            if self._range is not None:
                raise InvalidParameter(f"the URI has {' and '.join(own)} already; give one range")
            self._range = parse_range(own)
            self._parameters = {name: each for name, each in query.items() if name not in own}
        self._add("format", arguments.format or None)
        self._add("pages", str(arguments.pages) if arguments.pages else None)
        rows = _rows(arguments.rows, are_of_table=self._pages)
        if self._pages:
            self._add("limit", rows)
        elif rows is not None:
            self._add("rows", rows if "-" in rows else f"1-{rows}")
        self._asks_for_rows = rows is not None
        self._fitting_rows: int | None = None
        """Number of rows of a page that was read again since more do not fit."""
        if self._numbered and self._range is not None and self._range.unit == "bytes":
            raise InvalidParameter("number counts lines; give lines instead of bytes")
        self._bare = arguments.uri.partition("?")[0]
        self._uri = arguments.uri if self._parameters == query else self._with(self._parameters)

    async def _prefer_text(self) -> None:
        """Ask for the text of a document that is no text, if it can be read as text."""
        is_bytes = self._range is not None and self._range.unit == "bytes"
        if "format" in self._parameters or is_bytes:
            return
        name = await self._catalog.text_format(self._uri)
        if name is not None:
            self._parameters["format"] = name
            self._uri = self._with(self._parameters)

    def _add(self, name: str, value: str | None) -> None:
        if value is not None and self._parameters.setdefault(name, value) != value:
            raise InvalidParameter(f"the URI has another {name} already; give one of them")

    def _with(self, parameters: Mapping[str, str]) -> str:
        return uris.with_query(self._bare, parameters) if parameters else self._bare

    # -- reading

    async def read(self) -> ReadResult:
        """Return the document or collection; of a document too large to be read, the beginning.

        Raises:
            ResourceTooLarge: it has no ranges that are known here.
        """
        await self._prefer_text()
        try:
            reading = await self._fetch(self._range)
        except InvalidParameter:
            entry = await self._catalog.metadata(self._bare)
            if entry.resource.type == "collection":
                if table_facts(entry.resource) is None or not self._parameters:
                    raise self._of_documents() from None
                self._bare = f"{entry.uri}/{ROWS}"
                self._uri = self._with(self._parameters)
                return await self._fetch(self._range)
            if self._asks_for_rows and not entry.resource.formats:
                way = (
                    "rows are those of a page of a table, …/~rows" if self._pages else "give lines"
                )
                raise InvalidParameter(f"this document has no rows; {way}") from None
            raise
        except ResourceTooLarge:
            if not self._native:
                raise
            # More bytes than the budget has characters, whatever the encoding.
            return await self._fetch(Range("bytes", 0, 5 * self._limit + 64))
        if self._is_recoded(reading):
            self._parameters["format"] = _RECODED
            self._uri = self._with(self._parameters)
            with suppress(ConversionError):
                reading = await self._fetch(self._range)
        if reading.collection is not None and (self._range is not None or self._numbered):
            raise self._of_documents()
        return reading

    def _of_documents(self) -> InvalidParameter:
        """Return the error for arguments that a collection does not take."""
        given = self._arguments
        named = [name for name, field in _OF_DOCUMENTS.items() if getattr(given, field)]
        names = " and ".join(named) or "parameters"
        example = ", such as …/~rows of a table" if self._pages else ""
        return InvalidParameter(
            f"it is a collection, which is read whole: leave out {names}, or give the URI of one of"
            f" its documents{example}"
        )

    def _is_recoded(self, reading: ReadResult) -> bool:
        """Return whether bytes were read that are text in another encoding."""
        asks_for_bytes = self._range is not None and self._range.unit == "bytes"
        if not self._recodes or "format" in self._parameters or asks_for_bytes:
            return False
        if len(reading.items) != 1:
            return False
        (item,) = reading.items
        if item.content is None or not isinstance(item.content.data, bytes):
            return False
        media_type = item.entry.resource.mime_type
        return media_type is not None and media_types.is_text(media_type)

    async def _fetch(self, range: Range | None) -> ReadResult:
        uri = self._uri
        if range is not None and self._native:
            uri = self._with({**self._parameters, range.unit: range.value})
        return await self._catalog.read(uri, self._call.progress)

    async def blocks(self, reading: ReadResult) -> list[bytes]:
        """Return the content blocks of a document, with a notice if it is truncated."""
        content: list[bytes] = []
        if len(reading.items) > 1:
            self._limit = max(1, self._limit - _NOTICE_CHARACTERS)
        for item in reading.items:
            if item.content is None:
                continue
            # Further formats are sent whole or not at all.
            size = len(item.content.data) * (1 if isinstance(item.content.data, str) else 2)
            if content and sum(map(characters, content)) + size > self._limit:
                formats = ", ".join(each.name for each in item.entry.resource.formats)
                notice = f"[Truncated: too long in further formats; ask for format={formats}]"
                return [*content, content_blocks.text_block(notice)]
            if isinstance(item.content.data, str):
                content += await self._text_blocks(item, item.content, item.content.data)
            else:
                content += self._data_blocks(item, item.content, item.content.data)
        return content

    # -- text

    async def _text_blocks(self, item: ReadItem, content: Content, text: str) -> list[bytes]:
        if self._pages and self._range is None and len(text) > self._limit:
            item, content, text = await self._fewer_rows(item, content, text)
        part = self._part(content, text)
        _check_begin(self._range, part)
        if self._is_page(content):
            # Its end is not that of the document.
            part = msgspec.structs.replace(part, total=None)
        if self._numbered and part.first_line is None:
            part = msgspec.structs.replace(part, first_line=await self._first_of_tail(part))
        rest, guess = self._rest(item, content, part), _guess(item)
        room = self._limit - len(rest) - len(guess)
        shown, notice = await self._fitting(content, part, room)
        notice = f"{guess}{notice or rest}"
        blocks = [content_blocks.text_block(shown)]
        return [*blocks, content_blocks.text_block(notice)] if notice else blocks

    def _is_page(self, content: Content) -> bool:
        """Return whether ranges are cut from a text that is not the whole document."""
        return not self._native and content.truncated is not None

    def _rest(self, item: ReadItem, content: Content, part: TextPart) -> str:
        """Return the notice that the provider has truncated the document, if so."""
        if content.truncated is None or (self._range is not None and self._native):
            return ""
        if item.next_uri is not None:
            is_at_end = part.next is None and item.next_uri not in part.text
            return self._rest_of_page(item, content.truncated) if is_at_end else ""
        total = content.truncated.total
        of = "" if total is None else f" of {total} {content.truncated.unit}"
        return f"[Truncated: a part{of}; there is no way to the rest.]"

    def _rest_of_page(self, item: ReadItem, truncation: Truncation) -> str:
        """Return the notice of the rows that follow; none after all that were asked for."""
        if self._fitting_rows is None:
            is_asked_for = truncation.unit == "rows" and truncation.reason == "requested"
            return "" if is_asked_for else self._read_on(truncation, item.next_uri or "")
        given = {name: each for name, each in self._parameters.items() if name not in _CURSORS}
        if "limit" in given:
            left = int(given["limit"]) - self._fitting_rows
            if left <= 0:
                return ""
            given["limit"] = str(left)
        following = {**given, "after": (truncation.next or {})["after"]}
        shortened = Truncation("limit", "rows")
        return self._read_on(shortened, uris.with_query(item.entry.uri, following))

    def _read_on(self, truncation: Truncation, uri: str) -> str:
        """Return the notice of what follows; all that was asked for is not truncated."""
        words = "More follows" if truncation.reason == "requested" else "Truncated"
        return f"[{words}. Read on: {self._name}{_json({'uri': uri})}]"

    def _part(self, content: Content, text: str) -> TextPart:
        """Return what was read as a part of the document."""
        if self._is_page(content) and self._range is not None and self._range.unit == "tail":
            raise InvalidParameter("tail would be that of this page, not of the document")
        if not self._native:
            return part_of(text, self._range or WHOLE)
        asked = self._range or WHOLE
        first_line = asked.first if asked.unit == "lines" else None
        if content.truncated is None:
            return TextPart(text, 1, count_lines(text))
        unit, following = content.truncated.unit, self._own(content.truncated.next)
        is_known = unit == ("bytes" if asked.unit == "bytes" else "lines")
        return TextPart(
            text,
            first_line,
            content.truncated.total if is_known else None,
            parse_range(following) if following.keys() <= {*UNITS} else None,
            content.truncated.reason == "limit",
        )

    def _own(self, following: Mapping[str, str] | None) -> Mapping[str, str]:
        """Return the URI parameters of a next part that are not those of the document already."""
        given = self._parameters
        return {name: each for name, each in (following or {}).items() if given.get(name) != each}

    async def _fitting(self, content: Content, part: TextPart, limit: int) -> tuple[str, str]:
        """Return the part, or its first lines, and a notice if it is truncated."""
        range = self._range or WHOLE
        following = self._own(None if content.truncated is None else content.truncated.next)
        is_beginning = self._range is None and self._native and not {*UNITS}.isdisjoint(following)
        whole = _numbered(part.text, part.first_line) if self._numbered else part.text
        if range.unit == "tail":
            return await self._last(whole, limit, part, content.offset)
        if len(whole) <= limit and not is_beginning:
            extent = self._extent(part)
            return whole, extent if len(whole) + len(extent) <= limit or part.limited else ""
        room = max(1, limit - len(_json(self._uri)) - _NOTICE_CHARACTERS)
        if range.unit == "bytes":
            return await self._bytes(range.first, range.last, room)
        shown = whole[: whole.rfind("\n", 0, room) + 1]
        if not shown:
            return await self._bytes(self._offset(content, range), None, room)
        first = range.first + shown.count("\n")
        of = "" if part.total is None else f" of {part.total}"
        what = f"lines {range.first}-{first - 1}{of}"
        return shown, self._notice(what, Range("lines", first, range.last))

    def _offset(self, content: Content, range: Range) -> int:
        """Return the offset of a range of lines in bytes."""
        if self._native or isinstance(content.data, bytes):
            return content.offset or 0
        before = lines_of(content.data)[: range.first - 1]
        return len("".join(before).encode("utf-8", "surrogatepass"))

    async def _bytes(self, first: int, last: int | None, room: int) -> tuple[str, str]:
        """Return the characters of at most `room` bytes: part of a line that is too long."""
        until = first + room - 1 if last is None else min(last, first + room - 1)
        range = Range("bytes", first, until)
        reading = await self._fetch(range)
        content = reading.items[0].content
        data = "" if content is None else content.data
        if content is None or isinstance(data, bytes):
            raise InvalidParameter(f"bytes from {first} on are not text; give bytes")
        part = part_of(data, range)
        if self._native:
            following = None if content.truncated is None else content.truncated.next
            total = None if content.truncated is None else content.truncated.total
            part = TextPart(data, None, total, parse_range(self._own(following)))
        if part.next is None:
            return part.text, ""
        if last is not None and part.next.first > last:
            return part.text, ""
        of = "" if part.total is None else f" of {part.total}"
        following = Range("bytes", part.next.first, last)
        return part.text, self._notice(f"bytes {first}-{part.next.first - 1}{of}", following)

    async def _last(
        self, whole: str, limit: int, part: TextPart, offset: int | None
    ) -> tuple[str, str]:
        """Return the last lines that fit, and a notice of those before."""
        asked = 0 if self._range is None else self._range.first
        shown = whole
        if len(whole) > limit:
            room = max(1, limit - len(_json(self._uri)) - _NOTICE_CHARACTERS)
            shown = whole[whole.find("\n", len(whole) - room - 1) + 1 :]
            if not shown or len(shown) > room:
                total = part.total or await self._line_count()
                if total is None and offset is not None:
                    from_the_beginning = Range("bytes", offset)
                else:
                    total = total or 1
                    from_the_beginning = Range("lines", max(1, total - asked + 1), total)
                return whole[-room:], self._notice(
                    "the end of a long line", from_the_beginning, "From its beginning"
                )
        elif not part.limited:
            return whole, ""
        count = count_lines(shown)
        total = part.total if part.total is not None else await self._line_count()
        if total is None:
            return shown, await self._bytes_before(count)
        before = Range("lines", max(1, total - asked + 1), total - count)
        what = f"lines {total - count + 1}-{total} of {total}"
        return shown, self._notice(what, before, "Those before")

    async def _bytes_before(self, count: int) -> str:
        """Return a notice that only the last lines are shown of a document too long to count."""
        content = (await self._fetch(Range("tail", count))).items[0].content
        what = f"only the last {count} lines fit"
        if content is None or not content.offset:
            return f"[Truncated: {what}.]"
        before = Range("bytes", max(0, content.offset - self._limit), content.offset - 1)
        return self._notice(what, before, "What is before")

    async def _first_of_tail(self, part: TextPart) -> int:
        total = part.total if part.total is not None else await self._line_count()
        if total is None:
            raise InvalidParameter("the lines of this document cannot be numbered with tail")
        return total - count_lines(part.text) + 1

    async def _line_count(self) -> int | None:
        """Return the number of lines of a document that the provider reads in ranges."""
        with suppress(InvalidParameter):
            (item, *_) = (await self._fetch(Range("lines", 10**15 - 1))).items
            if item.content is not None and item.content.truncated is not None:
                return item.content.truncated.total
        return None

    def _extent(self, part: TextPart) -> str:
        """Return a short notice of how far a requested range reaches."""
        range = self._range
        if range is None:
            return ""
        if part.next is not None and part.limited:
            last = range.last if range.unit == part.next.unit else None
            what = f"{part.next.unit} up to {part.next.first - 1}"
            return self._notice(what, Range(part.next.unit, part.next.first, last))
        if part.next is not None:
            return f"[More follows: {part.next.unit}={part.next.first}-]"
        if range.first <= 1 or part.total is None:
            return ""
        return f"[The end: {part.total} {range.unit} in all.]"

    def _notice(self, what: str, following: Range, words: str = "Read on") -> str:
        value: str | int = following.first if following.unit == "tail" else following.value
        more: dict[str, Any] = {"uri": self._uri, following.unit: value}
        if self._numbered and following.unit == "lines":
            more["number"] = True
        return f"[Truncated: {what}. {words}: {self._name}{_json(more)}]"

    # -- rows

    async def _fewer_rows(
        self, item: ReadItem, content: Content, text: str
    ) -> tuple[ReadItem, Content, str]:
        """Read a page again with fewer rows, or one with shorter values, until it fits.

        Returns a document without rows as it is.
        """
        count, cell, size = _most_rows(text), self._limit, len(text)
        parameters = {**self._parameters}
        for _ in range(_MAX_ATTEMPTS):
            if size <= self._limit or cell == _SHORTEST_CELL:
                break
            if count > 1:
                count = max(1, min(count - 1, count * (self._limit - 200) // size))
                parameters["limit"] = str(count)
            else:
                cell = max(_SHORTEST_CELL, min(cell // 2, cell * self._limit // size))
                parameters["cell"] = str(cell)
            try:
                reading = await self._catalog.read(self._with(parameters))
            except InvalidParameter:
                break  # a document without rows
            found = reading.items[0].content
            if found is None or not isinstance(found.data, str):
                break
            size = len(found.data)
            if size < len(text):  # with addresses, short values are longer
                item, content, text = reading.items[0], found, found.data
                if content.truncated is None or content.truncated.reason == "requested":
                    self._fitting_rows = count
        return item, content, text

    # -- other data

    def _data_blocks(self, item: ReadItem, content: Content, data: bytes) -> list[bytes]:
        mime_type = content.mime_type or item.entry.resource.mime_type or ""
        is_media = content_blocks.is_media(mime_type, self._call.revision)
        if is_media and self._range is None:
            whole = content.truncated.total if content.truncated is not None else len(data)
            is_cut = content_blocks.is_cut(content)
            if not is_cut and len(data) <= self._call.server.limits.tool_media_bytes:
                return [
                    content_blocks.document_block(item, self._call.revision),
                    *self._chart(item),
                ]
            size = "" if whole is None else f"{whole} bytes, "
            return [content_blocks.text_block(f"[{size}too long to be shown by a tool]")]
        first, last, total, data = self._bytes_of(content, data)
        head = characters(serialization.resource(item.entry)) + _BLOCK_CHARACTERS
        room = max(1, (self._limit - head) * 3 // 4)
        shown = data[:room]
        notice = ""
        if len(shown) < len(data):
            of = "" if total is None else f" of {total}"
            following = Range("bytes", first + room, last)
            notice = self._notice(f"bytes {first}-{first + room - 1}{of}", following)
        elif content.truncated is not None and item.next_uri is not None:
            notice = self._read_on(content.truncated, item.next_uri)
        is_part = len(shown) < len(data) or len(data) != content_size(content) or is_media
        if is_part and content.truncated is None:
            content = Content(shown, content.mime_type, Truncation("limit", "bytes", total))
        elif len(shown) < len(data):
            content = msgspec.structs.replace(content, data=shown)
        item = ReadItem(item.uri, item.entry, content)
        blocks = [content_blocks.document_block(item, self._call.revision)]
        return [*blocks, content_blocks.text_block(notice)] if notice else blocks

    def _chart(self, item: ReadItem) -> list[bytes]:
        """Return the line of text beside the picture of a chart; none beside another picture."""
        if not self._pages or "format" not in self._parameters:
            return []
        truncated = None if item.content is None else item.content.truncated
        if truncated is not None and item.next_uri is not None:
            return [content_blocks.text_block(self._read_on(truncated, item.next_uri))]
        numbers = {"uri": self._with({**self._parameters, "format": "csv"})}
        return [content_blocks.text_block(f"[Its numbers: {self._name}{_json(numbers)}]")]

    def _bytes_of(self, content: Content, data: bytes) -> tuple[int, int | None, int | None, bytes]:
        """Return the first and last offset asked for, the size of the document, and the bytes."""
        range = self._range
        total = None if content.truncated is None else content.truncated.total
        if range is None:
            return 0, None, len(data) if content.truncated is None else total, data
        if self._native and range.unit != "bytes":
            # Lines of text that does not decode.
            return content.offset or 0, None, None, data
        if self._native:
            if not data and total:
                raise _beyond(range, total)
            return range.first, range.last, total, data
        if range.unit != "bytes":
            raise InvalidParameter("the document is no text, and has no lines; give bytes")
        end = None if range.last is None else range.last + 1
        cut = data[range.first : end]
        if not cut and data:
            raise _beyond(range, len(data))
        return range.first, range.last, len(data), cut


def _most_rows(text: str) -> int:
    """Return the number of rows of a page as JSON; of another format at least that."""
    try:
        return len(_decode_rows(text).rows)
    except msgspec.MsgspecError:
        return count_lines(text)


def _json(arguments: Mapping[str, Any] | str) -> str:
    return _encode(arguments).decode()


def _guess(item: ReadItem) -> str:
    """Return a note of the encoding of a text that is guessed."""
    details = item.entry.resource.details or {}
    return f"[Encoding guessed: {details['encoding']}] " if details.get("guessed") else ""


def _rows(rows: str | int | None, *, are_of_table: bool) -> str | None:
    """Return the argument `rows`: a number, or of a document an interval, too."""
    if rows is None or rows == "":
        return None
    text = str(rows).strip()
    if not (_NUMBER if are_of_table else _INTERVAL).fullmatch(text):
        also = "" if are_of_table else ", or 5-10"
        raise InvalidParameter(
            f"rows cannot be {text[:40]!r}; write a number of rows, at least 1{also}"
        )
    return text


def _check_begin(range: Range | None, part: TextPart) -> None:
    """Refuse a range that begins behind the end.

    Raises:
        InvalidParameter: with the range of the whole document.
    """
    if range is None or part.text or not part.total or range.unit == "tail":
        return
    last = part.total if range.unit == "lines" else part.total - 1
    if range.first > last:
        raise _beyond(range, part.total)


def _beyond(range: Range, total: int) -> InvalidParameter:
    """Return the error for a range that begins behind the end, with that of the whole document."""
    first, last = (1, total) if range.unit == "lines" else (0, total - 1)
    return InvalidParameter(
        f"{range.unit} {range.value} begin behind the end: the document has {total} {range.unit}; "
        f"write {range.unit}={first}-{last}"
    )


def _numbered(text: str, first: int | None) -> str:
    lines = lines_of(text)
    return "".join(f"{number}: {line}" for number, line in enumerate(lines, first or 1))


# -- collections


def _collection(call: Call, reading: ReadResult) -> list[bytes]:
    """Return the children of a collection as a list, then the documents that fit."""
    base = uris.readable(resource_listing.collection_base(reading.collection or ""))
    budget = Budget(call.server.toolbox.settings.budget)
    if not reading.items:
        text = "Nothing in this collection can be read here." if reading.children else ""
        text = text or "There is nothing in this collection."
        return _with_notice([content_blocks.text_block(text)], call, reading, 0, 0)
    budget.charge(" " * (2 * len(base) + _NOTICE_CHARACTERS))
    rows: list[str] = []
    for item in reading.items:
        row = resource_listing.text_row(*resource_listing.row(item.entry, base))
        if not budget.take(row + "\n"):
            break
        rows.append(row)
    content = [content_blocks.text_block("\n".join([f"Below {base} (path, bytes):", *rows]))]
    shown = len(reading.items) - sum(item.content is not None for item in reading.items)
    for item in reading.items[: len(rows)]:
        if item.content is None:
            continue
        path, _ = resource_listing.row(item.entry, base)
        for block in serialization.each(partial(_child, call, path), [item]):
            if budget.take("" if content_blocks.is_media_block(block) else block.decode()):
                content.append(block)
                shown += 1
    return _with_notice(content, call, reading, len(rows), shown)


def _child(call: Call, path: str, item: ReadItem) -> bytes:
    """Return a document of a collection: text after its path, other data as embedded resource."""
    content = item.content
    if content is None or isinstance(content.data, bytes):
        return content_blocks.document_block(item, call.revision)
    notice = ""
    if content.truncated is not None:
        more = {"uri": item.next_uri or item.entry.uri}
        notice = f"\n[Truncated. Read on: {_json(more)}]"
    return content_blocks.text_block(f"{path}:\n{content.data}{notice}")


def _with_notice(
    content: list[bytes], call: Call, reading: ReadResult, listed: int, shown: int
) -> list[bytes]:
    """Return the blocks, with a notice if children are missing from them."""
    if reading.complete and listed == len(reading.items) == shown:
        return content
    total = "" if reading.total is None else f" of {reading.total}"
    name = call.server.toolbox.settings.prefix + "list_resources"
    more = f"{name} {_json({'uri': reading.collection})}"
    notice = f"[Truncated: {shown}{total} children were read. List them: {more}]"
    return [*content, content_blocks.text_block(notice)]
