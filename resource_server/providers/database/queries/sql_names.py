"""Names of tables in callers' SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from resource_server.providers.database.engines.reflection import TableName


def sql_names(tables: Iterable[TableName]) -> Mapping[str, TableName]:
    """Return tables by their names in callers' SQL, in order.

    It is the table's own name. Of tables of one name, the first has it; the name of another begins
    with its schema, as `sales_orders`.
    """
    found: dict[str, TableName] = {}
    taken = set[str]()
    for table in tables:
        name = table.name
        if name.casefold() in taken:
            name = f"{table.schema or ''}_{name}"
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        found[name] = table
    return found
