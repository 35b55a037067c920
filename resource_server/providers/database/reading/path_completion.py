"""Completion of template variables: schemas, tables and row keys."""

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
from resource_server.providers.database.reading.exposed_table import ExposedTableCache
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

_MAX_KEYS = 101
"""Maximum number of keys suggested: one more than a client gets, to signal that there are more."""


class PathCompletion:
    """Suggests exposed schemas, tables and keys, as path segments."""

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

    async def row_keys(self, typed: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return keys of the given table that begin with `typed`, one key column at a time.

        If there are many, returns those that the index finds first.

        Raises:
            ResourceNotFound: there is no such table, or no key begins this way.
        """
        path = tuple(given[name] for name in ("schema", "table") if name in given)
        address = parse_path(path, has_schemas=self._engine.has_schemas)
        if not isinstance(address, TableAddress):
            return ()
        exposed = await self._exposed.get(address.table)
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
                rows = await self._engine.fetch(
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


def _fitting(values: Sequence[object], type: KeyType, begun: str) -> Iterator[str]:
    for value in values:
        with suppress(ValueError):  # too long for a URI
            segment = type.segment(value)
            if segment.casefold().startswith(begun.casefold()):
                yield segment
