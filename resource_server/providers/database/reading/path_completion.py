"""Completion of template variables and URI parameters: tables, row keys, columns, values."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from resource_server.errors import ResourceError
from resource_server.providers.database.addressing.address import (
    TableAddress,
    address_path,
    parse_path,
)
from resource_server.providers.database.addressing.key_types import KeyType
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.reading.exposed_table import ExposedTable, ExposedTableCache
from resource_server.providers.database.reading.selection import WHERE
from resource_server.providers.database.reading.summary import AGGREGATES
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

_MAX_KEYS = 101
"""Maximum number of keys suggested: one more than a client gets, to signal that there are more."""


NAMING = ("columns", "sort", "by", *AGGREGATES)
"""URI parameters whose values are names of columns."""


class PathCompletion:
    """Suggests exposed schemas, tables, keys and columns, and values of filters."""

    def __init__(
        self, engine: Engine, exposed_tables: ExposedTableCache, timing: Timing = DEFAULT_TIMING
    ) -> None:
        self._key_completion_s = timing.key_completion_s
        self._engine = engine
        self._exposed = exposed_tables

    async def names(self, variable: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return the schemas, or the tables of the given schema."""
        tables = [address_path(TableAddress(info.name)) for info in await self._exposed.infos()]
        if variable == "schema":
            return list(dict.fromkeys(path[0] for path in tables))
        schema = given.get("schema")
        return [path[-1] for path in tables if schema in (None, path[0])]

    async def columns(self, parameter: str, typed: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return values of a URI parameter that names columns, with the names before the last.

        Raises:
            ResourceNotFound: there is no such table.
        """
        exposed = await self._table(given)
        if exposed is None:
            return ()
        usable = [
            column.name
            for column in exposed.table.columns
            if parameter == "columns"
            or (column.name in exposed.view.searchable and _can(column, parameter))
        ]
        before, comma, _ = typed.rpartition(",")
        sign = "-" if typed[len(before + comma) :].startswith("-") else ""
        taken = {name.removeprefix("-") for name in before.split(",")}
        return [f"{before}{comma}{sign}{name}" for name in usable if name not in taken]

    async def values(self, parameter: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return the values that a filter may have: those of an enumeration or a boolean.

        Raises:
            ResourceNotFound: there is no such table.
        """
        exposed = await self._table(given)
        if exposed is None:
            return ()
        name, _, operator = parameter.removeprefix(WHERE).rpartition(".")
        if operator == "null":
            return ("true", "false")
        for written in (parameter.removeprefix(WHERE), name):
            if written in exposed.view.searchable:
                column = exposed.columns[written]
                return column.values or (("true", "false") if column.kind == "boolean" else ())
        return ()

    async def _table(self, given: Mapping[str, str]) -> ExposedTable | None:
        path = tuple(given[name] for name in ("schema", "table") if name in given)
        address = parse_path(path, has_schemas=self._engine.has_schemas)
        return await self._exposed.get(address.table) if isinstance(address, TableAddress) else None

    async def row_keys(self, typed: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return keys of the given table that begin with `typed`, one key column at a time.

        If there are many, returns those that the index finds first.

        Raises:
            ResourceNotFound: there is no such table, or no key begins this way.
        """
        exposed = await self._table(given)
        if exposed is None:
            return ()
        *before, begun = typed.split("/")
        if not exposed.has_rows or len(before) >= len(exposed.key):
            return ()
        type, within = exposed.key_types[len(before)], exposed.key_of(tuple(before))
        found: dict[str, None] = {}
        until = time.monotonic() + self._key_completion_s
        # No suggestions if the table is too slow or its keys cannot be compared.
        with suppress(ResourceError):
            for value in type.prefix_bounds(begun):
                first = None if value is None else type.bind(value)
                room = _MAX_KEYS - len(found)
                rows = await self._engine.run_own(
                    exposed.statements.prefixes(room, within=within, first=first),
                    limit=room,
                    within=max(until - time.monotonic(), 0.0),
                    slow=True,
                )
                held = [value for (value,) in rows.rows]
                found.update(dict.fromkeys(_fitting(held, type, begun)))
                if len(found) == _MAX_KEYS:
                    break
        goes_on = "/" if len(before) + 1 < len(exposed.key) else ""
        start = "".join(f"{segment}/" for segment in before)
        return [f"{start}{segment}{goes_on}" for segment in found]


def _can(column: Column, parameter: str) -> bool:
    """Return whether a column may be named by a parameter that orders, groups or aggregates."""
    type = column.key_type
    if type is None or not type.is_compared:
        return False
    return parameter not in AGGREGATES or parameter in type.functions


def _fitting(values: Sequence[object], type: KeyType, begun: str) -> Iterator[str]:
    for value in values:
        with suppress(ValueError):  # too long for a URI
            segment = type.segment(value)
            if segment.casefold().startswith(begun.casefold()):
                yield segment
