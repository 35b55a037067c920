"""Reflection by SQLAlchemy's Inspector: tables, views, columns, keys and indexes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy.engine import Inspector
from sqlalchemy.exc import DBAPIError, NoSuchTableError
from sqlalchemy.sql import quoted_name

from resource_server.errors import ResourceNotFound
from resource_server.providers.database.engines.contract import ViewReads
from resource_server.providers.database.engines.generic import firebird
from resource_server.providers.database.engines.generic.dialects import known
from resource_server.providers.database.engines.generic.key_types import described
from resource_server.providers.database.engines.reflection import (
    Column,
    ForeignKey,
    FoundKey,
    Index,
    Key,
    Table,
    TableInfo,
    TableName,
    TableType,
    best_first,
)

T = TypeVar("T")

_WORD = re.compile(r"\w+")


class ListedTables(NamedTuple):
    """The tables and views of a database."""

    infos: tuple[TableInfo, ...] = ()
    spelled: Mapping[TableName, str] = {}
    """The names as the Inspector takes them: marked where the database keeps them in lower case."""
    left_out: tuple[str, ...] = ()
    """Tables whose names differ from others only in quotes, each with the reason."""

    @property
    def types(self) -> Mapping[TableName, TableType]:
        """The type of each table."""
        return {info.name: info.type for info in self.infos}


def listing(inspector: Inspector, schemas: Sequence[str]) -> ListedTables:
    """Return the tables and views of some schemas, or of the default one if there are none."""
    spelled: dict[TableName, str] = {}
    types: dict[TableName, TableType] = {}
    comments: dict[TableName, str | None] = {}
    left_out: list[str] = []
    for schema in schemas or (None,):
        for type, ask in _LISTS.items():
            for found in _of_schema(lambda: ask(inspector, schema), schema):  # noqa: B023
                name = TableName(schema, str(found))
                if name in spelled:
                    if types[name] == type and _is_exact(found) != _is_exact(spelled[name]):
                        left_out.append(f"'{name.name}' names two tables, of which one is left out")
                    types[name] = type  # some dialects list views among the tables
                    continue
                spelled[name], types[name] = found, type
        if not any(name.schema == schema for name in spelled):
            continue
        told = _optional(lambda: inspector.get_multi_table_comment(schema), {})  # noqa: B023
        comments |= {TableName(schema, str(n)): each.get("text") for (_, n), each in told.items()}
    names = sorted(spelled, key=lambda name: ((name.schema or "").encode(), name.name.encode()))
    infos = tuple([TableInfo(name, types[name], comments.get(name) or None) for name in names])
    return ListedTables(infos, spelled, tuple(left_out))


_LISTS: Mapping[TableType, Callable[[Inspector, str | None], Iterable[str]]] = {
    "table": lambda inspector, schema: inspector.get_table_names(schema),
    "view": lambda inspector, schema: inspector.get_view_names(schema),
    "materialized view": lambda inspector, schema: inspector.get_materialized_view_names(schema),
}


def _is_exact(name: str) -> bool:
    """Return whether a name is found in quotes only, though SQLAlchemy would write it without."""
    return isinstance(name, quoted_name) and bool(name.quote)


def _optional(ask: Callable[[], T], default: T) -> T:
    """Return what a dialect tells, or the default of one that does not tell it."""
    try:
        return ask()
    except NotImplementedError:
        return default


def _of_schema(ask: Callable[[], Iterable[str]], schema: str | None) -> Iterable[str]:
    """Return what a dialect lists; nothing of a schema that is not there."""
    try:
        return _optional(ask, ())
    except DBAPIError as error:
        if schema is None or error.connection_invalidated:
            raise
        return ()


def reflected(inspector: Inspector, name: TableName, found: ListedTables) -> Table:
    """Reflect one table.

    Raises:
        ResourceNotFound: there is no such table.
    """
    spelled = found.spelled.get(name)
    if spelled is None:
        raise ResourceNotFound
    table, type = _Reflection(inspector, spelled, name.schema), found.types[name]
    try:
        columns = table.columns()
    except NoSuchTableError:
        raise ResourceNotFound from None
    exact: set[str | None] = {str(c["name"]) for c in table.raw if _is_exact(c["name"])}
    exact |= {None} if _is_exact(spelled) else set()
    made = Table(
        name=name,
        type=type,
        columns=columns,
        foreign_keys=table.foreign_keys(found),
        indexes=table.indexes(),
        comment=_optional(lambda: inspector.get_table_comment(spelled, name.schema)["text"], None)
        or None,
        ddl=table.definition() if type != "table" else None,
        exact=frozenset(exact),
    )
    return made.with_key(table.keys())


class _Reflection:
    """What the Inspector tells of one table."""

    def __init__(self, inspector: Inspector, spelled: str, schema: str | None) -> None:
        self._inspector = inspector
        self._at = (spelled, schema)
        self.raw: Sequence[Any] = inspector.get_columns(*self._at)
        if inspector.dialect.name.startswith("firebird"):
            self.raw = firebird.with_scales(inspector, spelled, self.raw)
        primary = _optional(lambda: inspector.get_pk_constraint(*self._at), None)
        self._primary = tuple(map(str, (primary or {}).get("constrained_columns") or ()))

    def columns(self) -> tuple[Column, ...]:
        """Return the columns, in order."""
        return tuple(map(self._column, self.raw))

    def _column(self, raw: Any) -> Column:
        dialect = self._inspector.dialect
        written, kind, key_type = described(raw["type"], dialect)
        name = str(raw["name"])
        computed = raw.get("computed")
        # SQLite allows NULL in a primary key.
        is_key = name in self._primary and dialect.name != "sqlite"
        is_rowid = self._primary == (name,) and written == "INTEGER"
        return Column(
            name=name,
            type=written,
            kind=kind,
            nullable=bool(raw.get("nullable", True)) and not (is_key or is_rowid),
            default=computed["sqltext"] if computed else _text_or_none(raw.get("default")),
            generated=bool(computed),
            comment=raw.get("comment") or None,
            values=tuple(map(str, getattr(raw["type"], "enums", ()))),
            key_type=key_type,
        )

    def keys(self) -> list[Key]:
        """Return the keys that the dialect enforces and whose values are addresses, best first."""
        if not known(self._inspector.dialect.name).enforces_keys:
            return []
        columns = {each.name: each for each in self.columns()}
        found = [FoundKey(True, self._primary, self._primary)] if self._primary else []
        found += [FoundKey(False, names, names) for names in self._unique()]
        keys = [each for each in found if all(columns[n].is_address for n in each.columns)]
        return best_first(
            [
                each
                for each in keys
                if each.is_primary or not any(columns[n].nullable for n in each.columns)
            ]
        )

    def _unique(self) -> Iterator[tuple[str, ...]]:
        told = _optional(lambda: self._inspector.get_unique_constraints(*self._at), [])
        for each in told:
            names = tuple(map(str, each["column_names"]))
            if names and names != self._primary:
                yield names

    def indexes(self) -> tuple[Index, ...]:
        """Return the indexes, and the unique constraints that are none."""
        told = _optional(lambda: self._inspector.get_indexes(*self._at), [])
        found = [
            Index(
                str(each["name"] or ""),
                tuple([None if name is None else str(name) for name in each["column_names"]]),
                bool(each["unique"]),
                any(
                    name.endswith("_where") and condition is not None
                    for name, condition in each.get("dialect_options", {}).items()
                ),
            )
            for each in told
        ]
        indexed = {each.columns for each in found if each.unique}
        found += [Index("", names, True) for names in self._unique() if names not in indexed]
        return tuple(found)

    def foreign_keys(self, listed: ListedTables) -> tuple[ForeignKey, ...]:
        """Return the foreign keys to tables that are served."""
        told = _optional(lambda: self._inspector.get_foreign_keys(*self._at), [])
        found: list[ForeignKey] = []
        for each in told:
            schema = each["referred_schema"]
            table = TableName(self._at[1] and (schema or self._at[1]), str(each["referred_table"]))
            is_elsewhere = self._at[1] is None and schema is not None
            if table in listed.spelled and not is_elsewhere:
                columns = tuple(map(str, each["constrained_columns"]))
                found.append(ForeignKey(columns, table, tuple(map(str, each["referred_columns"]))))
        return tuple(found)

    def definition(self) -> str | None:
        """Return the definition of a view, if the login may see it."""
        with contextlib.suppress(Exception):
            told = self._inspector.get_view_definition(*self._at)
            return str(told).strip() or None
        return None


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def view_reads(
    inspector: Inspector, names: Sequence[TableName], found: ListedTables
) -> Mapping[TableName, ViewReads]:
    """Return what each of these views may read, by the words of its definition.

    A view whose definition is not told may read everything.
    """
    everything = frozenset([(name, "*") for name in found.spelled])
    reads: dict[TableName, ViewReads] = {}
    for view in names:
        ddl = _Reflection(inspector, found.spelled[view], view.schema).definition()
        if ddl is None:
            reads[view] = everything
            continue
        words = {word.casefold() for word in _WORD.findall(ddl)}
        tables = [n for n in found.spelled if n != view and words.issuperset(_words(n.name))]
        columns = {*words, "*"} if "*" in ddl else words
        reads[view] = frozenset([(table, word) for table in tables for word in columns])
    return reads


def _words(name: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(name)}
