"""Statements of one table that SQLAlchemy compiles and runs itself, in any of its dialects.

Only what all dialects have is written: no cast of a column, no recursion, and no function but
aggregates and `lower`. Values are bound with types. Where dialects differ in the order of NULL or
of texts, the statement puts them in place, or refuses the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql import quoted_name
from typing_extensions import override

from resource_server.errors import InvalidParameter
from resource_server.providers.database.addressing.key_types import Binary, KeyType, Texts
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.engines.generic.dialects import known
from resource_server.providers.database.engines.generic.key_types import LimitedTexts, bound_type
from resource_server.providers.database.engines.reflection import Table, WordIndex
from resource_server.providers.database.reading.like_patterns import LIKE_ESCAPE
from resource_server.providers.database.reading.selection import EVERYTHING, Order, Selection
from resource_server.providers.database.reading.statements import (
    Compiler,
    OrderColumn,
    Select,
    Statements,
)
from resource_server.providers.database.reading.summary import Aggregate


class CoreStatements(Statements):
    """Statements for the generic engine. See `Statements`."""

    def __init__(self, dialect: Any, table: Table, *arguments: Any, **options: Any) -> None:
        self._facts = known(dialect.name)
        self._exact = table.exact
        super().__init__(dialect, table, *arguments, **options)
        self._nulls_first = self._facts.nulls or (True, False)
        # No dialect is certain to keep conditions out of a subquery.
        self._where = self._where if self._where_of_view is None else self._where_of_view
        self._where_of_view = None
        self._table = self._source([column.name for column in table.columns])

    @override
    def _compiler_for(self, texts: Sequence[str]) -> Compiler:
        return _CoreBinder(self._dialect, texts)

    @property
    @override
    def orders_every_row(self) -> bool:
        if self._masked or self._facts.text_order == "unknown":
            return False
        types = [column.key_type for column in self._ordering]
        return all(type is not None and type.is_compared for type in types)

    @override
    def without_key(
        self, limit: int, *, skip: int = 0, selection: Selection = EVERYTHING, **options: Any
    ) -> Statement | None:
        if (skip or selection.order) and not (self.every_row_has_key or self.orders_every_row):
            raise InvalidParameter(
                "rows of this table have no key, and its values no complete order here, so its "
                "pages have no order; an owner can declare a `key` in the manifest"
            )
        return super().without_key(limit, skip=skip, selection=selection, **options)

    @override
    def prefixes(
        self,
        limit: int,
        *,
        within: Sequence[object] = (),
        after: object | None = None,
        first: object | None = None,
    ) -> Statement:
        name = self._key[len(within)]
        begin = after if first is None else first
        values = {"k0": begin, **{f"w{place}": value for place, value in enumerate(within)}}

        def select() -> Select:
            column = self._column(name)
            found = sa.select(column.label("value")).select_from(self._table)
            found = self._addressed(self._conditions(found, len(within)))
            if begin is not None:
                bound = self._bound(name, "k0")
                found = found.where(column > bound if first is None else column >= bound)
            return self._compiler.limited(found.distinct().order_by(column), limit)

        return self._statement((), select, values)

    @override
    def _statement(
        self,
        shape: tuple[object, ...],
        select: Callable[[], Select],
        values: Mapping[str, object],
    ) -> Statement:
        # SQLAlchemy has a cache of its own. What is bound but our own may not fit its column.
        bound = tuple([value for name, value in values.items() if name not in _OWN])
        named = {_NAME.format(name): value for name, value in values.items()}
        return Statement("", tuple([v for v in bound if v is not None]), (select(), named))

    # -- parts of statements

    @override
    def _source(self, names: Iterable[str]) -> sa.TableClause:
        columns: list[sa.ColumnClause[Any]] = [
            sa.column(quoted_name(name, True) if name in self._exact else name) for name in names
        ]
        table = self._name.name
        named = quoted_name(table, True) if None in self._exact else table
        return sa.table(named, *columns, schema=self._name.schema)

    @override
    def _directed(self, term: Order | OrderColumn) -> Sequence[sa.ColumnElement[Any]]:
        if self._facts.nulls is not None or term.column not in self._may_be_null:
            return super()._directed(term)
        column = self._column(term.column)
        nulls_first = self._nulls_first[term.is_descending]
        if isinstance(term, OrderColumn):
            nulls_first = term.nulls_first
        place = sa.case((column.is_(None), 0 if nulls_first else 1), else_=1 if nulls_first else 0)
        return place, column.desc() if term.is_descending else column

    @override
    def _bytewise(self, name: str) -> list[sa.ColumnElement[Any]]:
        column, type = self._column(name), self._types.get(name)
        dialect = self._dialect.name.partition(".")[0]
        # Firebird pads texts and bytes to compare them.
        length: list[Any] = [sa.func.octet_length(column)] if dialect == "firebird" else []
        if isinstance(type, Binary):
            return length
        if not isinstance(type, Texts) or self._facts.text_order != "letters":
            return []
        match dialect, type:
            case "postgresql", _:
                return [sa.collate(sa.cast(column, sa.Text), "C")]
            case "sqlite", _:
                return [sa.func.typeof(column), sa.collate(column, "BINARY")]
            case "mssql", _:
                return [sa.cast(column, sa.VARBINARY)]
            case "firebird", LimitedTexts(length=int(most)):
                return [sa.cast(column, sa.VARBINARY(min(4 * most, 32765))), *length]
            case _:
                return [sa.cast(column, sa.BINARY)]

    @override
    def _digest(self, name: str) -> sa.ColumnElement[Any]:
        raise InvalidParameter("masked values have no order here")

    @override
    def _aggregate(self, aggregate: Aggregate) -> sa.ColumnElement[Any]:
        column = self._column(aggregate.column)
        type = self._types.get(aggregate.column)
        if aggregate.function == "avg" and isinstance(type, self._facts.averages_cut):
            return sa.func.avg(sa.cast(column, sa.DOUBLE_PRECISION))
        return getattr(sa.func, aggregate.function)(column)

    @override
    def _is_null(self, column: sa.ColumnClause[Any]) -> sa.ColumnElement[bool]:
        return column.is_(None)

    @override
    def _value(self, name: str) -> sa.ColumnElement[Any]:
        return self._column(name)

    @override
    def _any_text(self, name: str, max_characters: int | None = None) -> sa.ColumnElement[Any]:
        return self._column(name)

    @override
    def _likes(
        self, text: sa.ColumnElement[Any], pattern: sa.BindParameter[Any]
    ) -> sa.ColumnElement[bool]:
        compared: sa.ColumnElement[Any] = pattern
        if self._dialect.name == "mssql":  # which has one more wildcard
            compared = sa.func.replace(pattern, "[", f"{LIKE_ESCAPE}[")
        return text.ilike(compared, escape=LIKE_ESCAPE)

    @override
    def _is_like(self, name: str, pattern: sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
        return self._likes(self._column(name), pattern)

    @override
    def _may_be_like(self, name: str, pattern: sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
        return self._likes(self._column(name), pattern)

    @override
    def _is_found(self, index: WordIndex | None) -> sa.ColumnElement[bool]:
        raise NotImplementedError  # no index of words is reflected

    @override
    def _bound(self, column: str, parameter: str, *, ranked: bool = False) -> sa.ColumnElement[Any]:
        type: KeyType = self._types[column]
        return sa.bindparam(_NAME.format(parameter), type_=bound_type(type))


_NAME = "p_{}"
_OWN = ("limit", "skip", "order_key")


class _CoreBinder(Compiler):
    """Parameters of statements that SQLAlchemy compiles."""

    def __init__(self, dialect: Any, texts: Sequence[str]) -> None:
        del dialect, texts

    @override
    def bind(self, name: str) -> sa.BindParameter[Any]:
        return sa.bindparam(_NAME.format(name), type_=sa.Unicode())

    @override
    def limited(self, selected: Select, limit: int, skip: int | None = None) -> Select:
        # Numbers, since some dialects take no other limit.
        return selected.limit(limit) if skip is None else selected.limit(limit).offset(skip)
