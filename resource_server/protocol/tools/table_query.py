"""The tool `query_table`: rows of a table by filters and an order, or counts and groups of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

import msgspec

from resource_server import uris
from resource_server.errors import InvalidParameter
from resource_server.protocol.call import Call, Result
from resource_server.protocol.tools.resource_reading import ReadArguments, read_resource
from resource_server.protocol.tools.table_overview import ROWS, SCHEMA

_SUMMARY = "~summary"
_DOCUMENTS = (ROWS, _SUMMARY, SCHEMA)
_FORMAT = "csv"
"""The shortest format."""

OPERATORS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "in", "like", "null"))
"""Operators of the filters of tables, in a layer that does not import the provider of databases."""
_CSV_SPECIAL = frozenset(',"\r\n')

_Value: TypeAlias = str | int | float | bool | Mapping[str, object] | None
"""Objects are shown forms, such as those of blobs, or JSON."""
_Given: TypeAlias = _Value | Sequence[_Value]
_Names: TypeAlias = str | Sequence[str] | None
"""Names of columns, separated by commas; some models write lists."""


class TableQueryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `query_table`."""

    uri: str
    where: Mapping[str, _Given] = {}
    sort: _Names = None
    columns: _Names = None
    count: bool = False
    by: _Names = None
    sum: _Names = None
    min: _Names = None
    max: _Names = None
    avg: _Names = None
    limit: str | int | None = None
    format: str | None = None


async def query_table(call: Call, arguments: TableQueryArguments) -> Result:
    """Read the rows or the groups that match, within the budget.

    Raises:
        InvalidParameter: arguments that cannot be used; names the document with the columns.
        ResourceError: as `Catalog.read`.
    """
    table = _table(arguments.uri)
    groups = {
        name: _joined(given)
        for name in ("by", "sum", "min", "max", "avg")
        if (given := getattr(arguments, name))
    }
    if groups and (arguments.columns or arguments.count):
        raise InvalidParameter("columns and count are of rows: leave them out of groups")
    parameters: dict[str, str] = {}
    for each in _conditions(arguments.where):
        name, text = _filter(*each)
        if parameters.setdefault(name, text) != text:
            raise InvalidParameter(f"{name} is given twice, with other values; write one")
    document = _SUMMARY if groups else ROWS
    if arguments.count:
        parameters["count"] = ""
    parameters |= groups
    for name in ("columns", "sort", "limit"):
        if given := getattr(arguments, name):
            parameters[name] = _joined(given)
    parameters["format"] = arguments.format or _FORMAT
    uri = uris.with_query(f"{table}/{document}", parameters)
    try:
        return await read_resource(call, ReadArguments(uri), via_other=True)
    except InvalidParameter as error:
        raise InvalidParameter(f"{error} (columns: {table}/{SCHEMA})") from None


def _table(uri: str) -> str:
    """Return the URI of a table, from that of it or of one of its documents."""
    table = uri.partition("?")[0].rstrip("/")
    before, _, last = table.rpartition("/")
    return before if last in _DOCUMENTS else table


def _joined(given: str | int | Sequence[str]) -> str:
    return str(given) if isinstance(given, str | int) else ",".join(given)


def _conditions(where: Mapping[str, _Given]) -> Iterator[tuple[str, _Given]]:
    """Yield names with operators; some models write `{"total": {"$gt": 9}}` for `total.gt`."""
    for name, value in where.items():
        operands: Mapping[str, object] = {}
        if isinstance(value, Mapping):
            operands = {key.removeprefix("$"): operand for key, operand in value.items()}
        if operands and operands.keys() <= OPERATORS:
            for operator, operand in operands.items():
                yield f"{name}.{operator}", cast("_Given", operand)
        else:
            yield name, value


def _filter(name: str, value: _Given) -> tuple[str, str]:
    """Return a filter as a URI parameter: null and lists have operators of their own."""
    if value is None:
        if name.endswith(".ne"):
            return f"where.{name.removesuffix('.ne')}.null", "false"
        return f"where.{name}.null", "true"
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = ",".join(_quoted(_parameter_text(each)) for each in value)
        return f"where.{name.removesuffix('.in')}.in", texts
    return f"where.{name}", _parameter_text(value)


def _parameter_text(value: _Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return msgspec.json.encode(value).decode()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _CSV_SPECIAL.intersection(text) else text
