"""Arrow (Feather, IPC files and streams) as tables, read batch by batch."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from datetime import date, time
from typing import Any, BinaryIO, Final, cast

import nanoarrow  # pyright: ignore[reportMissingTypeStubs]
from nanoarrow import ipc  # pyright: ignore[reportMissingTypeStubs]

from resource_server.conversion.formats import row_tables
from resource_server.conversion.formats.row_tables import Row, RowTable
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import ConversionRequest, Part

_MAGIC: Final = b"ARROW1\0\0"
_COUNTED_BYTES: Final = 64 * 1024 * 1024
"""Size up to which the rows after a range are counted."""
_JSON_TYPES: Final = (
    ("bool", "boolean"),
    ("int", "integer"),
    ("uint", "integer"),
    ("half_float", "number"),
    ("float", "number"),
    ("double", "number"),
)


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield at most 1,000 rows a part; as `json`, the parts together are one document."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    # An IPC file is a stream between a magic number and an index.
    if file.read(len(_MAGIC)) != _MAGIC:
        file.seek(0)
    try:
        with cast("Any", ipc).InputStream.from_readable(file) as source:
            batches = _Batches(nanoarrow.ArrayStream(source), is_counted=size <= _COUNTED_BYTES)
            yield from row_tables.parts(batches.table(request), request)
    except InvalidParameter:
        raise
    except (RuntimeError, ValueError, OverflowError):
        raise ConversionError("it is damaged, or no Arrow") from None


class _Batches:
    """The batches of a document, in order."""

    def __init__(self, stream: Any, *, is_counted: bool) -> None:
        self._stream = stream
        self._batches: Iterator[Any] = stream.iter_chunks()
        self._is_counted = is_counted
        self._read = 0
        """Rows of the batches so far."""

    def table(self, request: ConversionRequest) -> RowTable:
        names: list[str] = []
        kinds: dict[str, str] = {}
        for at, each in enumerate(self._stream.schema.fields, 1):
            name = each.name or f"column{at}"
            kind = each.type.name.lower()
            names.append(name)
            kinds[name] = next((json for own, json in _JSON_TYPES if kind.startswith(own)), kind)
        first, _ = row_tables.wanted_rows(request)
        return RowTable(
            self._rows(first - 1), names, kinds, "Arrow", self._total, skipped=first - 1
        )

    def _rows(self, skipped: int) -> Iterator[Row]:
        for batch in self._batches:
            before, self._read = self._read, self._read + len(batch)
            if self._read <= skipped:
                continue
            columns = [_values(child) for child in batch.iter_children()]
            rows = zip(*columns, strict=False)
            for row in itertools.islice(rows, max(skipped - before, 0), None):
                yield [_value(each) for each in row]

    def _total(self, _: int) -> int | None:
        if not self._is_counted:
            return None
        return self._read + sum(map(len, self._batches))


def _values(column: Any) -> Iterator[object]:
    """Return the values of a column; of a type that cannot be read, its name."""
    values: Iterator[object] = column.iter_py()
    try:
        first = list(itertools.islice(values, 1))
    except KeyError:
        return itertools.repeat(f"[{column.schema.type.name.lower()}]", len(column))
    return itertools.chain(first, values)


def _value(value: object) -> object:
    """Return a value as JSON has it; bytes as their number."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return f"[{len(value)} bytes]"
        case date() | time():
            return value.isoformat()
        case Mapping():
            members = cast("Mapping[Any, object]", value)
            return {str(name): _value(each) for name, each in members.items()}
        case list() | tuple():
            return [_value(each) for each in cast("list[object]", value)]
        case _:
            return str(value)
