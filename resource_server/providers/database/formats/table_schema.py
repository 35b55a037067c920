"""Table schemas as documents: Markdown for people and models, JSON for programs.

The tables given here are already reduced to their visible parts, without DDL if any part is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
) -> str:
    """Return one JSON object; `links` are the URIs of the tables that foreign keys reference.

    Null, false and empty members are omitted, except `nullable` and `unique`. `kind` is one of
    `table.ColumnKind`, and `json` has the JSON types of numbers (`json_numbers.RULE`); an index on
    an expression has null for its column. Title and description come from the manifest; the table's
    comment is the default description. Bytes that are not Unicode are replaced by U+FFFD.
    """
    links = links or {}
    document = _TableJson(
        name=uris.display(table.name.name),
        schema=_text(table.name.schema),
        type=table.type,
        title=_text(title),
        description=_text(description or table.comment),
        strict=table.strict,
        columns=[_column(column) for column in table.columns],
        key=_KeyJson(table.key_kind, _names(table.key_names)),
        foreign_keys=[_foreign_key(key, links.get(key.table)) for key in table.foreign_keys],
        indexes=[_index(index) for index in table.indexes],
        ddl=_text(table.ddl),
    )
    return msgspec.json.encode(document).decode()


def _text(text: str | None) -> str | None:
    return None if text is None else uris.display(text)


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(uris.display, names))


def _column(column: Column) -> _ColumnJson:
    return _ColumnJson(
        name=uris.display(column.name),
        type=uris.display(column.type),
        kind=column.kind,
        json=_json_types(column),
        nullable=column.nullable,
        default=_text(column.default),
        generated=column.generated,
        comment=_text(column.comment),
        values=_names(column.values),
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
    table = _TableNameJson(uris.display(key.table.name), _text(key.table.schema))
    return _ForeignKeyJson(_names(key.columns), table, _names(key.referred), uri)


def _index(index: Index) -> _IndexJson:
    name = uris.display(index.name) if index.name else UNSET
    return _IndexJson(tuple(map(_text, index.columns)), index.unique, name)


def schema_markdown(
    table: Table,
    links: Mapping[TableName, str] | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
) -> str:
    """Return Markdown; `links` are the URIs of the tables that foreign keys reference."""
    name = _qualified(table.name)
    sections = [
        markdown.heading(title or name),
        f"{_type(table)} {markdown.code(name)}",
        markdown.paragraph(description or table.comment or ""),
        _columns(table),
        _key(table),
        _foreign_keys(table, links or {}),
        _indexes(table),
        f"## DDL\n\n{markdown.block(table.ddl, 'sql')}" if table.ddl else "",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _type(table: Table) -> str:
    return f"Strict {table.type}" if table.strict else table.type.capitalize()


def _qualified(name: TableName) -> str:
    return name.name if name.schema is None else f"{name.schema}.{name.name}"


def _codes(names: Sequence[str | None]) -> str:
    return ", ".join("*expression*" if name is None else markdown.code(name) for name in names)


def _columns(table: Table) -> str:
    keys = {name: place for place, name in enumerate(table.key, 1)}
    referring = {name for key in table.foreign_keys for name in key.columns}
    rows: list[Sequence[str]] = []
    for column in table.columns:
        role: list[str] = []
        if column.name in keys:
            role.append(f"key {keys[column.name]}" if len(keys) > 1 else "key")
        if column.name in referring:
            role.append("foreign key")
        rows.append(
            (
                markdown.code(column.name, in_table=True),
                markdown.code(column.type, in_table=True),
                "yes" if column.nullable else "no",
                _default(column),
                ", ".join(role),
                _comment(column),
            )
        )
    names = ("column", "type", "null", "default", "key", "comment")
    head = markdown.table_head(names)
    shown = f"## Columns\n\n{head}{markdown.table_rows(list(zip(*rows, strict=True)))}".rstrip("\n")
    may_be_text = any("string" in _json_types(column) for column in table.columns)
    return f"{shown}\n\nIn JSON: {RULE.lower()}." if may_be_text else shown


def _default(column: Column) -> str:
    shown = "" if column.default is None else markdown.code(column.default, in_table=True)
    return f"generated {shown}".rstrip() if column.generated else shown


def _comment(column: Column) -> str:
    shown = "" if column.comment is None else markdown.escape(column.comment)
    if not column.values:
        return shown
    values = ", ".join(markdown.code(value, in_table=True) for value in column.values)
    # A SET of MariaDB holds any number of its members.
    which = "Any of" if column.type.lower().startswith("set") else "One of"
    return f"{shown} {which} {values}".lstrip()


def _key(table: Table) -> str:
    words = _KEYS[table.key_kind]
    return f"{words}: {_codes(table.key_names)}" if table.key_names else words


def _foreign_keys(table: Table, links: Mapping[TableName, str]) -> str:
    if not table.foreign_keys:
        return ""
    lines = ["## Foreign keys\n"]
    for key in table.foreign_keys:
        uri = links.get(key.table)
        referred = markdown.code(_qualified(key.table))
        shown = referred if uri is None else f"[{referred}](<{uri}>)"
        lines.append(f"- {_codes(key.columns)} → {shown} ({_codes(key.referred)})")
    return "\n".join(lines)


def _indexes(table: Table) -> str:
    if not table.indexes:
        return ""
    lines = ["## Indexes\n"]
    for index in table.indexes:
        unique = ", unique" if index.unique else ""
        name = f"{markdown.code(index.name)}: " if index.name else ""
        lines.append(f"- {name}{_codes(index.columns)}{unique}")
    return "\n".join(lines)
