"""Summaries of a table: groups of rows with counts, sums and other aggregates, by URI parameters.

`by=country,status` groups; `sum=total`, `min=`, `max=` and `avg=` name columns. The columns of the
result are those of `by`, `count`, and aggregates such as `sum.total`; `sort` names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec

from resource_server.errors import InvalidParameter
from resource_server.providers.database.engines.reflection import Column, ColumnKind
from resource_server.providers.database.policy import TableView
from resource_server.providers.database.reading.selection import (
    Selection,
    parse_order,
    parse_selection,
    sortable,
)
from resource_server.runtime.near_name import did_you_mean

AGGREGATES: Final = ("sum", "min", "max", "avg")

COUNT: Final = "count"
_MAX_GROUPINGS = 3
_MAX_AGGREGATES = 16


class Aggregate(NamedTuple):
    """A function of the values of a column in a group."""

    function: str
    """One of `AGGREGATES`."""
    column: str

    @property
    def name(self) -> str:
        """Its name in the summary: `sum.total`."""
        return f"{self.function}.{self.column}"


class Summary(NamedTuple):
    """A summary that a client asks for."""

    by: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    selection: Selection
    """Its order names columns of the summary."""

    def columns(self, columns: Mapping[str, Column]) -> Sequence[Column]:
        """Return the columns of the summary, from those of the table."""
        found = [columns[name] for name in self.by]
        found.append(Column(COUNT, "", "integer"))
        for each in self.aggregates:
            kind: ColumnKind = "real" if each.function == "avg" else columns[each.column].kind
            column = msgspec.structs.replace(columns[each.column], name=each.name, kind=kind)
            found.append(column)
        return found

    def row(self, row: tuple[object, ...], columns: Sequence[Column]) -> tuple[object, ...]:
        """Return a group in the forms of its columns: engines sum integers to decimals."""
        first = len(self.by) + 1
        found = list(row)
        for place in range(first, len(row)):
            value, kind = row[place], columns[place].kind
            if isinstance(value, Decimal) and value.is_finite() and kind in ("integer", "real"):
                found[place] = int(value) if kind == "integer" else float(value)
        return tuple(found)


def parse_summary(view: TableView, query: Mapping[str, str]) -> Summary:
    """Return the summary of URI parameters.

    Raises:
        InvalidParameter: a column cannot be used, or a value does not fit.
    """
    by = _names(query.get("by"))
    if len(by) > _MAX_GROUPINGS:
        raise InvalidParameter(f"by: at most {_MAX_GROUPINGS} columns")
    for name in by:
        sortable(view, name, "by")
    aggregates: list[Aggregate] = []
    for function in AGGREGATES:
        for name in _names(query.get(function)):
            column = sortable(view, name, function)
            if column.key_type is None or function not in column.key_type.functions:
                raise InvalidParameter(
                    f"the database has no {function} of values of type {column.type} ({name})"
                )
            aggregates.append(Aggregate(function, name))
    if len(aggregates) > _MAX_AGGREGATES:
        raise InvalidParameter(f"at most {_MAX_AGGREGATES} aggregates")
    known = [*by, COUNT, *[each.name for each in aggregates]]

    def check(name: str) -> None:
        if name not in known:
            near = did_you_mean(name, known)
            raise InvalidParameter(
                f"sort: no column {name[:40]!r} in this summary{near}; its columns are "
                f"{', '.join(known)}"
            )

    filters = parse_selection(view, {k: v for k, v in query.items() if k != "sort"}).filters
    order = parse_order(query.get("sort"), check)
    return Summary(by, tuple(aggregates), Selection(filters, order))


def _names(given: str | None) -> tuple[str, ...]:
    return () if not given else tuple(dict.fromkeys(given.split(",")))
