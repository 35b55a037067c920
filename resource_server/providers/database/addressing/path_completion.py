"""What may stand for the variables of a database's templates: schemas, tables, keys of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from resource_server.errors import ResourceError
from resource_server.providers.database.addressing import address as addresses
from resource_server.providers.database.addressing import keys
from resource_server.providers.database.addressing.address import TableAddress, path_of
from resource_server.providers.database.engines.contract import Engine
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.reading.relation import Relations

_WITHIN_S = 0.25
"""It is asked for with every letter that is typed."""
_MOST = 101
"""One more than clients are given, so that they are told that there are more."""


class Completion:
    """Suggests what is exposed, in the segments that a path has for it."""

    def __init__(self, engine: Engine, relations: Relations) -> None:
        self._engine = engine
        self._relations = relations

    async def names(self, variable: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return the schemas, or the tables of the schema that is given."""
        tables = [path_of(TableAddress(info.name)) for info in await self._relations.infos()]
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
        address = addresses.parse(path, has_schemas=self._engine.has_schemas)
        if not isinstance(address, TableAddress):
            return ()
        relation = await self._relations.get(address.table)
        *before, begun = typed.split("/")
        if not relation.has_rows or len(before) >= len(relation.key):
            return ()
        column, within = relation.key[len(before)], relation.key_of(tuple(before))
        found: dict[str, None] = {}
        until = time.monotonic() + _WITHIN_S
        # What cannot be asked in time, or compared, is not suggested.
        with suppress(ResourceError):
            for value in keys.beginnings(begun, column):
                first = None if value is None else relation.bound([value])[0]
                room = _MOST - len(found)
                rows = await self._engine.fetch(
                    relation.statements.prefixes(room, within=within, first=first),
                    limit=room,
                    within=max(until - time.monotonic(), 0.0),
                    lane="slow",
                )
                held = [value for (value,) in rows.rows]
                found.update(dict.fromkeys(_fitting(held, column, begun)))
                if len(found) == _MOST:
                    break
        goes_on = "/" if len(before) + 1 < len(relation.key) else ""
        start = "".join(f"{segment}/" for segment in before)
        return [f"{start}{segment}{goes_on}" for segment in found]


def _fitting(values: Sequence[object], column: Column, begun: str) -> Iterator[str]:
    for value in values:
        with suppress(ValueError):  # no URI is long enough
            segment = keys.encode(value, column)
            if segment.casefold().startswith(begun.casefold()):
                yield segment
