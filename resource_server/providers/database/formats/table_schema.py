"""Table schemas as documents: Markdown for people and models, JSON for programs.

The tables given here are already reduced to their visible parts, without DDL if any part is hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from resource_server import uris
from resource_server.providers.database.addressing.key_types import Decimals, Integers
from resource_server.providers.database.engines.reflection import (
    Column,
    ColumnKind,
    ForeignKey,
    Index,
    KeyKind,
    Table,
    TableName,
    TableType,
)
from resource_server.runtime import markdown
from resource_server.runtime.json_numbers import LARGEST_INTEGER, RULE

_KEYS: Mapping[KeyKind, str] = {
    "primary": "Primary key",
    "unique": "Key, unique in the database",
    "declared": "Key, as declared in the manifest",
    "rowid": "Row number, which the database may change",
    "number": "Rows are addressed by their number, from 1",
    "none": "No key: rows have neither order nor address",
}
_AUTOMATIC = "sqlite_autoindex_"
"""Begins the names of the indexes that SQLite makes for constraints."""


class _ColumnJson(msgspec.Struct, omit_defaults=True, kw_only=True):
    name: str
    type: str
    kind: ColumnKind
    json: tuple[str, ...] = ()
    """JSON types of its numbers."""
    nullable: bool
    default: str | None = None
    generated: bool = False
    comment: str | None = None
    values: tuple[str, ...] = ()
    sortable: bool = True
    filterable: bool = True


class _KeyJson(msgspec.Struct):
    kind: KeyKind
    columns: tuple[str, ...]


class _TableNameJson(msgspec.Struct, omit_defaults=True):
    name: str
    schema: str | None = None


class _ForeignKeyJson(msgspec.Struct, omit_defaults=True):
    columns: tuple[str, ...]
    table: _TableNameJson
    referred: tuple[str, ...]
    uri: str | None = None


class _IndexJson(msgspec.Struct):
    columns: tuple[str | None, ...]
    unique: bool
    name: str | UnsetType = UNSET


class _TableJson(msgspec.Struct, omit_defaults=True, rename="camel", kw_only=True):
    name: str
    schema: str | None = None
    type: TableType
    title: str | None = None
    description: str | None = None
    strict: bool = False
    columns: list[_ColumnJson]
    key: _KeyJson
    foreign_keys: list[_ForeignKeyJson] = []
    indexes: list[_IndexJson] = []
    ddl: str | None = None


def schema_json(
    table: Table,
    links: Mapping[TableName, str] | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    unsortable: Collection[str] = (),
    masked: Collection[str] = (),
) -> str:
    """Return one JSON object; `links` are the URIs of the tables that foreign keys reference.

    Null, false and empty members are omitted, except `nullable` and `unique`; `sortable` and
    `filterable` are given if false: `unsortable` are the columns that rows cannot be ordered by,
    `masked` those that they are not filtered by. `kind` is one of
    `table.ColumnKind`, and `json` has the JSON types of numbers (`json_numbers.RULE`); an index on
    an expression has null for its column. Title and description come from the manifest; the table's
    comment is the default description. Bytes that are not Unicode are replaced by U+FFFD.
    """
    links = links or {}
    document = _TableJson(
        name=uris.display(table.name.name),
        schema=_displayed(table.name.schema),
        type=table.type,
        title=_displayed(title),
        description=_displayed(description or table.comment),
        strict=table.strict,
        columns=[
            _column(each, sortable=each.name not in unsortable, filterable=each.name not in masked)
            for each in table.columns
        ],
        key=_KeyJson(table.key_kind, _names(table.key_names)),
        foreign_keys=[_foreign_key(key, links.get(key.table)) for key in table.foreign_keys],
        indexes=[_index(index) for index in _shown_indexes(table)],
        ddl=_displayed(table.ddl),
    )
    return msgspec.json.encode(document).decode()


def _displayed(text: str | None) -> str | None:
    return None if text is None else uris.display(text)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(uris.display, names))


def _column(column: Column, *, sortable: bool, filterable: bool) -> _ColumnJson:
    return _ColumnJson(
        name=uris.display(column.name),
        type=uris.display(column.type),
        kind=column.kind,
        json=_json_types(column),
        nullable=column.nullable,
        default=_displayed(column.default),
        generated=column.generated,
        comment=_displayed(column.comment),
        values=_names(column.values),
        sortable=sortable,
        filterable=filterable,
    )


def _json_types(column: Column) -> tuple[str, ...]:
    """Return the JSON types of a column of numbers: none for any other column."""
    match column.kind, column.key_type:
        case "integer", Integers(least=least, most=most) if max(-least, most) <= LARGEST_INTEGER:
            return ("integer",)
        case "integer", _:
            return ("integer", "string")
        case "numeric", Decimals():
            return ("string",)
        case "numeric" | "real", _:
            return ("number", "string")
        case _:
            return ()


def _foreign_key(key: ForeignKey, uri: str | None) -> _ForeignKeyJson:
    table = _TableNameJson(uris.display(key.table.name), _displayed(key.table.schema))
    return _ForeignKeyJson(_names(key.columns), table, _names(key.referred), uri)


def _shown_indexes(table: Table) -> Sequence[Index]:
    """Return the indexes that say more than the key, without the names SQLite makes for them."""
    return [
        msgspec.structs.replace(index, name="") if index.name.startswith(_AUTOMATIC) else index
        for index in table.indexes
        if not (index.unique and not index.partial and index.columns == table.key)
    ]


def _index(index: Index) -> _IndexJson:
    name = uris.display(index.name) if index.name else UNSET
    return _IndexJson(tuple(map(_displayed, index.columns)), index.unique, name)


def schema_markdown(
    table: Table,
    links: Mapping[TableName, str] | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
) -> str:
    """Return Markdown with each fact once, one line per column; `links` as for `schema_json`."""
    name = _qualified(table.name)
    links = dict(links or {})  # each is given once
    sections = [
        markdown.heading(title or name),
        f"{_type(table)} {markdown.code(name)}" if title else _type(table),
        markdown.paragraph(description or table.comment or ""),
        _columns(table, links),
        "\n".join([*_key(table), *_foreign_keys(table, links), *_indexes(table)]),
        "DDL: format=json" if table.ddl else "",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _type(table: Table) -> str:
    return f"Strict {table.type}" if table.strict else table.type.capitalize()


def _qualified(name: TableName) -> str:
    return name.name if name.schema is None else f"{name.schema}.{name.name}"


def _codes(names: Sequence[str | None]) -> str:
    return ", ".join("*expression*" if name is None else markdown.code(name) for name in names)


def _columns(table: Table, links: dict[TableName, str]) -> str:
    unique = {index.columns for index in _shown_indexes(table) if _is_fact_of_column(index)}
    lines: list[str] = []
    for column in table.columns:
        facts = [_typed(column)]
        if table.key_names == (column.name,):
            facts.append(_KEYS[table.key_kind].lower())
        if (column.name,) in unique:
            facts.append("unique")
        shown = [markdown.code(column.name), ", ".join(facts)]
        shown += [
            _reference(key, links) for key in table.foreign_keys if key.columns == (column.name,)
        ]
        lines.append(f"- {' '.join(filter(None, shown))}{_comment(column)}")
    may_be_text = any("string" in _json_types(column) for column in table.columns)
    return "\n".join([*lines, *([f"\nIn JSON: {RULE.lower()}."] if may_be_text else [])])


def _typed(column: Column) -> str:
    """Return the type of a column with its constraints, as a definition in SQL has them."""
    default = "" if column.default is None else markdown.code(column.default)
    words = [
        markdown.code(column.type),
        "" if column.nullable else "not null",
        f"generated {default}" if column.generated else f"default {default}" if default else "",
    ]
    return " ".join(filter(None, words)).rstrip()


def _is_fact_of_column(index: Index) -> bool:
    """Whether an index says only that one column is unique."""
    is_plain = index.unique and not index.partial and not index.name
    return is_plain and len(index.columns) == 1 and None not in index.columns


def _comment(column: Column) -> str:
    shown = "" if column.comment is None else f": {markdown.escape(column.comment)}"
    if not column.values:
        return shown
    # A SET of MariaDB holds any number of its members.
    which = "Any of" if column.type.lower().startswith("set") else "One of"
    return f"{shown or ':'} {which} {_codes(column.values)}"


def _key(table: Table) -> Iterator[str]:
    """Yield the key, unless it is a column, which says so."""
    words = _KEYS[table.key_kind]
    if not table.key_names:
        yield words
    elif len(table.key_names) > 1 or not {*table.key_names} <= {*table.column_names}:
        yield f"{words}: {_codes(table.key_names)}"


def _foreign_keys(table: Table, links: dict[TableName, str]) -> Iterator[str]:
    """Yield the foreign keys of several columns; each other stands at its column."""
    for key in table.foreign_keys:
        if len(key.columns) != 1 or key.columns[0] not in table.column_names:
            yield f"Foreign key: {_codes(key.columns)} {_reference(key, links)}"


def _reference(key: ForeignKey, links: dict[TableName, str]) -> str:
    uri = links.pop(key.table, None)
    referred = markdown.code(_qualified(key.table))
    shown = referred if uri is None else f"[{referred}](<{uri}>)"
    return f"→ {shown} ({_codes(key.referred)})" if key.referred else f"→ {shown}"


def _indexes(table: Table) -> Iterator[str]:
    """Yield the indexes, except those that a column has said."""
    for index in _shown_indexes(table):
        if not _is_fact_of_column(index):
            kind = "Unique index" if index.unique else "Index"
            name = f"{markdown.code(index.name)}: " if index.name else ""
            yield f"{kind} {name}{_codes(index.columns)}"
