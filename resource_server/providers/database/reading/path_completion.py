"""What may stand for the variables of a database's templates: schemas, tables, keys of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from resource_server.errors import ResourceError
from resource_server.providers.database.addressing import key_codec
from resource_server.providers.database.addressing.address import (
    TableAddress,
    address_path,
    parse_address,
)
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.reading.exposed_table import ExposedTables

_WITHIN_S = 0.25
"""It is asked for with every letter that is typed."""
_MOST = 101
"""One more than clients are given, so that they are told that there are more."""


class PathCompletion:
    """Suggests what is exposed, in the segments that a path has for it."""

    def __init__(self, engine: Engine, exposed_tables: ExposedTables) -> None:
        self._engine = engine
        self._exposed = exposed_tables

    async def names(self, variable: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return the schemas, or the tables of the schema that is given."""
        tables = [address_path(TableAddress(info.name)) for info in await self._exposed.infos()]
        if variable == "schema":
            return list(dict.fromkeys(path[0] for path in tables))
        schema = given.get("schema")
        return [path[-1] for path in tables if schema in (None, path[0])]

    async def row_keys(self, typed: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return keys of the given table that begin as typed, one column after another.

        Some of them, where there are many: as many as the index gives at once.

        Raises:
            ResourceNotFound: there is no such table, or nothing can begin so.
        """
        path = tuple(given[name] for name in ("schema", "table") if name in given)
        address = parse_address(path, has_schemas=self._engine.has_schemas)
        if not isinstance(address, TableAddress):
            return ()
        exposed = await self._exposed.get(address.table)
        *before, begun = typed.split("/")
        if not exposed.has_rows or len(before) >= len(exposed.key):
            return ()
        column, within = exposed.key[len(before)], exposed.key_of(tuple(before))
        found: dict[str, None] = {}
        until = time.monotonic() + _WITHIN_S
        # What cannot be asked in time, or compared, is not suggested.
        with suppress(ResourceError):
            for value in key_codec.prefix_bounds(begun, column):
                first = None if value is None else exposed.bound([value])[0]
                room = _MOST - len(found)
                rows = await self._engine.fetch(
                    exposed.statements.prefixes(room, within=within, first=first),
                    limit=room,
                    within=max(until - time.monotonic(), 0.0),
                    slow=True,
                )
                held = [value for (value,) in rows.rows]
                found.update(dict.fromkeys(_fitting(held, column, begun)))
                if len(found) == _MOST:
                    break
        goes_on = "/" if len(before) + 1 < len(exposed.key) else ""
        start = "".join(f"{segment}/" for segment in before)
        return [f"{start}{segment}{goes_on}" for segment in found]


def _fitting(values: Sequence[object], column: Column, begun: str) -> Iterator[str]:
    for value in values:
        with suppress(ValueError):  # no URI is long enough
            segment = key_codec.encode_key(value, column)
            if segment.casefold().startswith(begun.casefold()):
                yield segment
