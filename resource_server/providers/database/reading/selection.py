"""Filters and orders of pages and summaries, from URI parameters.

| parameter | rows |
|---|---|
| `where.status=paid` | with this value; the operator `eq` |
| `where.total.gt=100` | `ne`, `lt`, `le`, `gt`, `ge`, `like`; `in` (values separated by commas) |
| `where.paid_at.null=true` | without a value, or with one (`false`) |
| `sort=-placed_at,total` | in this order; `-` is descending |

Values are read in the type of their column, as pages show them, and bound. A masked column is not
compared: comparisons would reveal its values.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.providers.database.addressing.key_types import KeyType
from resource_server.providers.database.engines.reflection import Column
from resource_server.providers.database.reading import like_patterns
from resource_server.runtime.near_name import did_you_mean

if TYPE_CHECKING:
    from resource_server.providers.database.policy import TableView

WHERE: Final = "where."
"""Start of the name of a filter."""
FILTERS: Final = "where.*"
"""All filters, among the optional parameters of a template."""
OPERATORS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "in", "like", "null")

_FLAGS: Final = {"true": True, "false": False}
_MAX_FILTERS = 32
_MAX_VALUES = 100
"""Maximum values of `in`."""
_MAX_SORTED = 8
_MAX_ECHO = 40


class Filter(NamedTuple):
    """A comparison of a column with bound values."""

    column: str
    operator: str
    values: tuple[object, ...]
    """As the driver binds them; for `null`, whether the value is missing."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What the SQL depends on."""
        detail = self.values if self.operator == "null" else len(self.values)
        return self.column, self.operator, detail


class Order(NamedTuple):
    """A column that rows are ordered by."""

    column: str
    is_descending: bool = False


class Selection(NamedTuple):
    """Which rows a client asks for, and in which order."""

    filters: tuple[Filter, ...] = ()
    order: tuple[Order, ...] = ()
    """Empty for the order of the key."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What the SQL depends on."""
        return tuple([each.shape for each in self.filters]), self.order

    @property
    def indexed(self) -> Sequence[str]:
        """The columns of the index that would serve it best."""
        equal = [each.column for each in self.filters if each.operator in ("eq", "in", "null")]
        ranges = [each.column for each in self.filters if each.operator in ("lt", "le", "gt", "ge")]
        ordered = [each.column for each in self.order] or ranges[:1]
        return list(dict.fromkeys((*equal, *ordered)))


EVERYTHING: Final = Selection()


def is_filter(name: str) -> bool:
    """Return whether a URI parameter is a filter."""
    return name.startswith(WHERE)


def parse_selection(view: TableView, query: Mapping[str, str]) -> Selection:
    """Return the selection of the URI parameters of a page.

    Raises:
        InvalidParameter: names every column that cannot be used and every value that does not fit.
    """
    given = [(name, value) for name, value in query.items() if is_filter(name)]
    if len(given) > _MAX_FILTERS:
        raise InvalidParameter(f"at most {_MAX_FILTERS} filters")
    filters: list[Filter] = []
    problems: list[str] = []
    for name, value in given:
        try:
            filters.append(_filter(view, name, value))
        except InvalidParameter as error:
            problems.append(str(error))
    order: tuple[Order, ...] = ()
    try:
        order = parse_order(query.get("sort"), lambda name: sortable(view, name, "sort"))
    except InvalidParameter as error:
        problems.append(str(error))
    if problems:
        raise InvalidParameter("; ".join(problems[:5]))
    return Selection(tuple(filters), order)


def parse_order(given: str | None, check: Callable[[str], object]) -> tuple[Order, ...]:
    """Return the order of `sort`; `check` raises InvalidParameter for a name."""
    if given is None:
        return ()
    order: list[Order] = []
    for written in given.split(","):
        is_descending = written.startswith("-")
        name = written[1:] if is_descending else written
        check(name)
        if name in [each.column for each in order]:
            raise InvalidParameter(f"sort: {_echo(name)} is given twice")
        order.append(Order(name, is_descending))
    if len(order) > _MAX_SORTED:
        raise InvalidParameter(f"sort: at most {_MAX_SORTED} columns")
    return tuple(order)


def comparable(view: TableView, name: str, use: str) -> Column:
    """Return a visible column whose values may be compared.

    Raises:
        InvalidParameter: there is none; `use` begins the message.
    """
    columns = {column.name: column for column in view.table.columns}
    if name not in columns:
        near = did_you_mean(name, columns)
        raise InvalidParameter(f"no column {_echo(name)} ({use}){near}")
    if name in view.masked:
        raise InvalidParameter(
            f"the column {_echo(name)} is masked, so rows are neither compared nor ordered by it"
            f" ({use})"
        )
    return columns[name]


def sortable(view: TableView, name: str, use: str) -> Column:
    """Return a visible column whose values have an order. Raises as `comparable`."""
    column = comparable(view, name, use)
    if not is_sortable(view, column):
        raise InvalidParameter(
            f"values of {_echo(name)} have no order: {column.type or 'any type'} ({use})"
        )
    return column


def is_sortable(view: TableView, column: Column) -> bool:
    """Return whether rows may be ordered by a visible column."""
    has_order = column.key_type is not None and column.key_type.is_compared
    return has_order and column.name not in view.masked


def _filter(view: TableView, name: str, value: str) -> Filter:
    written = name.removeprefix(WHERE)
    names = view.table.column_names
    column, operator = written, "eq"
    if written not in names:  # a column of exactly this name comes first
        begun, dot, end = written.rpartition(".")
        if dot and end in OPERATORS:
            column, operator = begun, end
        elif dot and begun in names:
            raise InvalidParameter(
                f"no operator {_echo(end)} ({_echo(name)}); one of {', '.join(OPERATORS)}"
            )
    found = comparable(view, column, _echo(name))
    if operator == "null":
        if value not in _FLAGS:
            raise InvalidParameter(f"{_echo(name)} must be true or false")
        return Filter(column, operator, (_FLAGS[value],))
    type = found.key_type
    others = "eq, ne, lt, le, gt, ge, in and null" if type and type.is_compared else "null"
    if operator == "like":
        if type is None or not type.has_text:
            raise InvalidParameter(
                f"values of type {found.type or 'any'} are shown otherwise than the database "
                f"writes them, so they are compared by {others}, not by like ({_echo(name)})"
            )
        return Filter(column, operator, (_pattern(name, value),))
    if type is None or not type.is_compared:
        others = "like and null" if type and type.has_text else "null"
        raise InvalidParameter(
            f"values of type {found.type or 'any'} are only compared by {others} ({_echo(name)})"
        )
    texts = parse_list(value, _echo(name)) if operator == "in" else [value]
    if not 0 < len(texts) <= _MAX_VALUES:
        raise InvalidParameter(f"{_echo(name)} must have 1 to {_MAX_VALUES} values")
    read = [_values(found, type, each) for each in texts]
    return Filter(column, operator, tuple([value for values in read for value in values]))


def parse_list(value: str, use: str) -> Sequence[str]:
    """Return the values of a list, which is written as a line of CSV.

    Raises:
        InvalidParameter: it is none; `use` begins the message.
    """
    import csv  # here: few requests have lists

    try:
        # A reader would drop a line end after the last value, which quotation marks are around.
        if value.endswith(("\r", "\n")):
            raise csv.Error
        rows = list(csv.reader([value], strict=True))
    except csv.Error:
        raise InvalidParameter(f"{use}: the values are not separated by commas as in CSV") from None
    return rows[0] if rows else [""]


def _values(column: Column, type: KeyType, text: str) -> list[object]:
    """Return the values that a text may mean, in the form that the driver binds."""
    shown = f"{_echo(text)!r} is no value of {_echo(column.name)}: {column.type or 'any type'}"
    if len(text) > uris.MAX_URI_LENGTH:
        raise InvalidParameter(shown)
    with contextlib.suppress(ValueError, LookupError, ArithmeticError):
        return [type.bind(each) for each in type.meanings(text)]
    which = "any of" if column.type.lower().startswith("set") else "one of"
    values = f"; {which} {', '.join(map(_echo, column.values[:10]))}" if column.values else ""
    raise InvalidParameter(shown + values)


def _pattern(name: str, value: str) -> str:
    """Return a pattern whose escapes are those of our statements."""
    if len(value) > like_patterns.MAX_LENGTH or "\0" in value:
        raise InvalidParameter(
            f"{_echo(name)} must be a pattern of at most {like_patterns.MAX_LENGTH} characters"
        )
    try:
        value.encode()
        return like_patterns.escaped_pattern(value)
    except ValueError:
        raise InvalidParameter(
            f"{_echo(name)} is no pattern: % and _ are wildcards, \\ takes their meaning"
        ) from None


def _echo(text: str) -> str:
    return uris.display(text[:_MAX_ECHO]) + "…" * (len(text) > _MAX_ECHO)
