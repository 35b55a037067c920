"""SELECT statements of one table: rows, pages and counts, in SQLAlchemy Core.

The dialect quotes the reflected names; values are bound. Pages use keyset pagination, never
offsets: the condition is an inclusive bound on the first key column, then lexicographic order,
which every engine answers from an index. Engines order NULL differently, so rows with NULL in their
key have a statement of their own.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.visitors import replacement_traverse

from resource_server.providers.database.addressing.key_types import Texts
from resource_server.providers.database.engines.contract import (
    DIGEST,
    REAL_TEXT,
    RawText,
    Statement,
)
from resource_server.providers.database.engines.reflection import VIEWS, Table, WordIndex
from resource_server.providers.database.reading.like_patterns import LIKE_ESCAPE, like_pattern
from resource_server.providers.database.reading.selection import (
    EVERYTHING,
    Filter,
    Order,
    Selection,
)
from resource_server.providers.database.reading.summary import COUNT, Aggregate

Select: TypeAlias = "sa.Select[*tuple[Any, ...]]"

_COLLATIONS = {"postgresql": "C", "mysql": "utf8mb4_general_ci", "mariadb": "utf8mb4_general_ci"}
"""Collations for LIKE, by dialect; SQLite needs none."""


class OrderColumn(NamedTuple):
    """A column of a complete order."""

    column: str
    is_descending: bool
    nulls_first: bool


class _Plan(NamedTuple):
    """A compiled statement; `names` are its parameters in placeholder order."""

    sql: str
    names: tuple[str, ...]

    def bind(self, values: Mapping[str, object]) -> Statement:
        return Statement(self.sql, tuple([values[name] for name in self.names]))


_MAX_PLANS = 512
"""Maximum statements of a table that are kept compiled; clients choose columns, filters, orders."""
_NULLS_FIRST = {"sqlite": (True, False), "mysql": (True, False), "mariadb": (True, False)}
"""Whether NULL comes first, ascending and descending; (False, True) on PostgreSQL."""
_COMPARISONS: Mapping[str, Callable[[Any, Any], sa.ColumnElement[bool]]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

_UNLIMITED = {"sqlite": "-1", "mysql": str(2**64 - 1), "mariadb": str(2**64 - 1)}
"""Limits without effect, for dialects that need one beside an offset."""


class Statements:
    """Statements of one exposed table, each compiled once.

    `columns` are the columns to fetch, in order; `where` is the manifest's condition. Key values
    are as `KeyType.bind` returns them. The `masked` columns order rows only by digests of their
    values with the secret `order_key`.
    """

    def __init__(
        self,
        dialect: Dialect,
        table: Table,
        columns: Sequence[str],
        where: str | None,
        *,
        masked: Collection[str] = (),
        order_key: str = "",
    ) -> None:
        self._dialect = dialect
        self._ordering = table.columns
        self._masked = frozenset(masked)
        self._order_key = order_key
        self._columns = tuple(columns)
        self._key = table.key
        self._nullable = tuple([column.name for column in table.key_columns if column.nullable])
        self._may_be_null = {column.name for column in table.columns if column.nullable}
        self._may_be_null -= {*table.key}  # no page has rows with NULL in the key
        self._nulls_first = _NULLS_FIRST.get(dialect.name, (False, dialect.name == "postgresql"))
        columns_by_name = {each.name: each for each in (*table.columns, *table.key_columns)}
        self._types = {
            name: column.key_type
            for name, column in columns_by_name.items()
            if column.key_type is not None
        }
        self._ranked = {name: type for name, type in self._types.items() if type.is_ranked}
        self._computed_reals = {
            column.name
            for column in table.columns
            if dialect.name == "sqlite"
            and column.kind == "real"
            and (column.generated or table.type == "view")
        }
        names = dict.fromkeys((*self._columns, *self._key))
        condition = None if where is None else sa.literal_column(f"({where}\n)", sa.Boolean)
        is_view = table.type in VIEWS
        self._name = table.name
        self._where: sa.ColumnElement[bool] | None = None if is_view else condition
        self._where_of_view: sa.ColumnElement[bool] | None = condition if is_view else None
        self._table = self._source(names)
        self._compiler = self._compiler_for(
            [*names, table.name.name, table.name.schema or "", where or ""]
        )
        self._plans: dict[tuple[object, ...], _Plan] = {}

    def _compiler_for(self, texts: Sequence[str]) -> Compiler:
        """Return what binds parameters, none of whose names is in one of these texts."""
        return Compiler(self._dialect, texts)

    @property
    def orders_every_row(self) -> bool:
        """Whether rows without a key have a complete order, in which other pages can follow."""
        return True

    def selected(self, columns: Sequence[str], order: Sequence[Order] = ()) -> Sequence[str]:
        """Return the selected columns: the given ones, then those of the key and the order."""
        return tuple(dict.fromkeys((*columns, *self._key, *[each.column for each in order])))

    @property
    def every_row_has_key(self) -> bool:
        """Whether pages of any order can go on after a row."""
        return bool(self._key) and not self._nullable

    def terms(self, order: Sequence[Order], *, is_backward: bool = False) -> Sequence[OrderColumn]:
        """Return the columns of an order, or of the reverse, with the key to tell equal rows apart.

        The key has the direction of the last column, so that an index of it serves both.
        """
        is_descending = bool(order) and order[-1].is_descending
        given = [each.column for each in order]
        key = [Order(name, is_descending) for name in self._key if name not in given]
        return [
            OrderColumn(
                each.column,
                each.is_descending != is_backward,
                self._nulls_first[each.is_descending] != is_backward,
            )
            for each in (*order, *key)
        ]

    def page(
        self,
        limit: int,
        *,
        after: Sequence[object] | None = None,
        within: Sequence[object] = (),
        columns: Sequence[str] | None = None,
        selection: Selection = EVERYTHING,
        is_backward: bool = False,
    ) -> Statement:
        """Select rows in the order of a selection or else of the key, after `after` if given.

        `after` are the values of `terms`; with `is_backward` rows come in the reverse order, and
        begin with that row itself. `within` restricts the first key columns to these values.
        Columns of the key and the order outside of `columns` come after them, as in `selected`.
        Rows without a key are selected by `without_key`; only a table without them has an order.
        """
        wanted = self._columns if columns is None else tuple(columns)
        terms = self.terms(selection.order, is_backward=is_backward)
        beyond = [
            self._rank(term.column, value) for term, value in zip(terms, after or (), strict=False)
        ]
        missing = tuple([value is None for value in beyond])
        values = {"limit": limit, **_values("w", within), **_values("k", beyond)}
        values |= self._filter_values(selection)

        def select() -> Select:
            selected = self._select(*self.selected(wanted, selection.order))
            selected = self._filtered(self._conditions(selected, len(within)), selection)
            paged = self._paged(selected, terms, missing, len(within), is_inclusive=is_backward)
            return self._compiler.limited(paged, limit)

        shape = ("page", wanted, missing, len(within), selection.shape, is_backward)
        return self._statement(shape, select, values)

    def _paged(
        self,
        selected: Select,
        terms: Sequence[OrderColumn],
        missing: Sequence[bool],
        within: int,
        *,
        is_inclusive: bool = False,
    ) -> Select:
        """Order rows that have a key, from the bound row on if there is one."""
        if missing:
            selected = selected.where(self._follows(terms, missing, within, is_inclusive))
        return self._addressed(selected).order_by(*chain(*map(self._directed, terms)))

    def _directed(self, term: Order | OrderColumn) -> Sequence[sa.ColumnElement[Any]]:
        column = self._column(term.column)
        directed = column.desc() if term.is_descending else column
        if isinstance(term, Order) or term.column not in self._may_be_null:
            return (directed,)
        # The reverse order of DuckDB, where NULL comes last in either direction.
        is_own = self._nulls_first[term.is_descending] == term.nulls_first
        return (directed if is_own else sa.nulls_first(directed),)

    def _follows(
        self,
        terms: Sequence[OrderColumn],
        missing: Sequence[bool],
        place: int,
        is_inclusive: bool = False,
    ) -> sa.ColumnElement[bool]:
        """Return the condition that a row follows the bound one, from the term `place` on.

        `missing` are the terms of the bound row that are NULL. The bound row itself follows only
        with `is_inclusive`.
        """
        term = terms[place]
        value = self._bound(term.column, f"k{place}", ranked=True)
        rest = None
        if place + 1 < len(terms):
            rest = self._follows(terms, missing, place + 1, is_inclusive)
        elif is_inclusive:
            rest = sa.true()
        column, compared = self._column(term.column), self._ordered(term.column)
        if missing[place]:
            same: sa.ColumnElement[bool] = column.is_(None)
            equal = sa.false() if rest is None else sa.and_(same, rest)
            return sa.or_(column.is_not(None), equal) if term.nulls_first else equal
        beyond = compared < value if term.is_descending else compared > value
        if term.column not in self._may_be_null or term.nulls_first:
            if rest is None:
                return beyond
            bound = compared <= value if term.is_descending else compared >= value
            return sa.and_(bound, sa.or_(beyond, rest))
        either = sa.or_(beyond, column.is_(None))
        return either if rest is None else sa.or_(either, sa.and_(compared == value, rest))

    def without_key(
        self,
        limit: int,
        *,
        skip: int = 0,
        is_ordered: bool = False,
        columns: Sequence[str] | None = None,
        selection: Selection = EVERYTHING,
    ) -> Statement | None:
        """Select the rows that have no key: those with NULL in it, or all if there is none.

        Skips some of them, in the order of all columns with `is_ordered`. Returns None if every row
        has a key. Columns as in `page`. With an order, selects all rows.
        """
        if self.every_row_has_key:
            return None
        wanted = self._columns if columns is None else tuple(columns)

        def select() -> Select:
            selected = self._conditions(self._select(*self.selected(wanted)))
            selected = self._filtered(selected, selection)
            if self._nullable and not selection.order:
                missing = sa.or_(*(self._column(name).is_(None) for name in self._nullable))
                selected = selected.where(missing)
            if not is_ordered:
                return self._compiler.limited(selected, limit)
            given = chain(*map(self._directed, selection.order))
            ordered = selected.order_by(*given, *self._total_order())
            return self._compiler.limited(ordered, limit, skip)

        values = {"limit": limit, "skip": skip, "order_key": self._order_key}
        values |= self._filter_values(selection)
        return self._statement(("without key", wanted, is_ordered, selection.shape), select, values)

    def _total_order(self) -> list[sa.ColumnElement[Any]]:
        """Return an order in which only rows with the same values are equal.

        First the visible columns in the order of their types, if these have one, then their bytes;
        last, digests of the masked columns, whose order reveals nothing about the values.
        """
        visible = [column for column in self._ordering if column.name not in self._masked]
        own = [
            self._column(column.name)
            for column in visible
            if column.key_type and column.key_type.is_compared
        ]
        bytewise = [each for column in visible for each in self._bytewise(column.name)]
        masked = [column.name for column in self._ordering if column.name in self._masked]
        return [*own, *bytewise, *map(self._digest, masked)]

    def _bytewise(self, name: str) -> list[sa.ColumnElement[Any]]:
        column = self._column(name)
        match self._dialect.name:
            case "sqlite":
                return [sa.func.typeof(column), sa.collate(column, "BINARY")]
            case "postgresql":
                return [sa.collate(sa.cast(column, sa.Text), "C")]
            case "duckdb":
                return [sa.cast(column, sa.Text)]
            case _:
                return [sa.cast(column, sa.BINARY)]

    def _digest(self, name: str) -> sa.ColumnElement[Any]:
        """Return a digest of a column's value that nobody can compute without the secret."""
        column, key = self._column(name), self._compiler.bind("order_key")
        match self._dialect.name:
            case "sqlite":
                # As bytes: text in no encoding could not be given to the function.
                kind = sa.func.typeof(column)
                is_text = kind == sa.literal_column("'text'")
                value = sa.case((is_text, sa.cast(column, sa.BLOB)), else_=column)
                return getattr(sa.func, DIGEST)(kind, value, key)
            case "postgresql":
                text = sa.cast(column, sa.Text)
                return sa.collate(sa.func.md5(key.concat(text)), "C")
            case "duckdb":
                return sa.func.md5(key.concat(sa.cast(column, sa.Text)))
            case _:
                value = sa.cast(column, sa.BINARY)
                return sa.func.sha2(sa.func.concat(key, value), sa.literal_column("256"))

    def rows(self, keys: Sequence[Sequence[object]]) -> Statement:
        """Select the rows with any of these keys, in any order; columns as in `page`."""

        def select() -> Select:
            each = [
                sa.and_(
                    *(
                        self._column(name) == self._bound(name, f"k{number}_{place}")
                        for place, name in enumerate(self._key)
                    )
                )
                for number in range(len(keys))
            ]
            found = self._conditions(self._select(*self.selected(self._columns)))
            return found.where(sa.or_(*each))

        values = {
            f"k{number}_{place}": value
            for number, key in enumerate(keys)
            for place, value in enumerate(key)
        }
        return self._statement(("rows", len(keys)), select, values)

    def prefixes(
        self,
        limit: int,
        *,
        within: Sequence[object] = (),
        after: object | None = None,
        first: object | None = None,
    ) -> Statement:
        """Select the distinct values of one key column in order, each by an index lookup.

        The column is the one after the values `within`; values start after `after` or at `first`.
        """
        name = self._key[len(within)]
        begin = self._rank(name, after if first is None else first)
        ranks = self._ranked[name].ranks if name in self._ranked else ()
        values = {"limit": limit, **_values("w", within), "k0": begin, **_values("e", ranks)}

        def select() -> Select:
            column = self._ordered(name)
            # Not `min`: PostgreSQL lacks it for some types that it can index.
            every = self._addressed(self._conditions(_select(column), len(within)))
            least = (
                every.order_by(self._column(name))
                .limit(sa.literal_column("1"))
                .offset(sa.literal_column("0"))
            )
            beginning = least
            if begin is not None:
                bound = self._bound(name, "k0", ranked=True)
                beginning = least.where(column > bound if first is None else column >= bound)
            # Counted, because MariaDB would ignore the limit and recurse to the last value.
            found = _select(
                beginning.scalar_subquery().label("value"), sa.literal_column("1").label("place")
            ).cte(self._compiler.name("found"), recursive=True)
            following = least.where(column > found.c.value).scalar_subquery()
            goes_on = sa.and_(
                found.c.value.is_not(None), found.c.place < self._compiler.bind("limit")
            )
            found = found.union_all(
                _select(following, found.c.place + sa.literal_column("1")).where(goes_on)
            )
            value: sa.ColumnElement[Any] = found.c.value
            if ranks:
                texts = [self._compiler.bind(f"e{place}") for place in range(len(ranks))]
                value = sa.func.elt(value + sa.literal_column("1"), *texts)
            chosen = _select(value).where(found.c.value.is_not(None))
            return chosen.order_by(found.c.place)

        shape = ("prefixes", len(within), after is not None, first is not None)
        return self._statement(shape, select, values)

    def texts(
        self,
        limit: int,
        columns: Sequence[str],
        *,
        containing: str | None,
        max_characters: int,
        after: Sequence[object] | None = None,
        within: Sequence[object] = (),
    ) -> Statement:
        """Select keys of rows and the texts of `columns`, paged like `page`.

        Texts are truncated to `max_characters`. With `containing`, texts that cannot contain it are
        NULL; see `like_pattern`.
        """
        like = None if containing is None else like_pattern(containing)
        beyond = [self._rank(*pair) for pair in zip(self._key, after or (), strict=False)]
        present = (False,) * len(beyond)
        values = {"limit": limit, "like": like, **_values("w", within), **_values("k", beyond)}

        def select() -> Select:
            found = [self._match(name, max_characters, is_any=like is None) for name in columns]
            held = [self._column(name) for name in self._key]
            labelled = [each.label(f"c{place}") for place, each in enumerate([*held, *found])]
            selected = _select(*labelled).select_from(self._table)
            selected = self._conditions(selected, len(within))
            paged = self._paged(selected, self.terms(()), present, len(within))
            return self._compiler.limited(paged, limit)

        shape = (
            "texts",
            tuple(columns),
            like is None,
            max_characters,
            after is not None,
            len(within),
        )
        return self._statement(shape, select, values)

    def candidates(
        self,
        limit: int,
        columns: Sequence[str],
        patterns: Sequence[str],
        *,
        has_every: bool,
        max_characters: int,
        after: Sequence[object] | None,
        until: Sequence[object] | None = None,
        query: str | None = None,
        index: WordIndex | None = None,
        within: Sequence[object] = (),
    ) -> Statement:
        """Select keys and texts as `texts` of rows that may match, up to the key `until` if given.

        These are the rows in which some of `columns` matches each of the LIKE `patterns`, or any of
        them without `has_every`. With a `query`, a full-text index finds them: that of trigrams,
        or `index`.
        """
        beyond = [self._rank(*pair) for pair in zip(self._key, after or (), strict=False)]
        ends = [self._rank(*pair) for pair in zip(self._key, until or (), strict=False)]
        values = {"limit": limit, **_values("w", within), **_values("k", beyond)}
        values |= {**_values("u", ends), **_values("l", patterns), "t": query}
        has_trigrams = query is not None and index is None

        def select() -> Select:
            texts = [self._any_text(name, max_characters) for name in columns]
            held = [self._column(name) for name in self._key]
            labelled = [each.label(f"c{place}") for place, each in enumerate([*held, *texts])]
            bound = [self._compiler.bind(f"l{place}") for place in range(len(patterns))]
            like = self._is_like if has_trigrams else self._may_be_like
            each = [sa.or_(*(like(name, one) for name in columns)) for one in bound]
            selected = _select(*labelled).select_from(self._table)
            selected = self._conditions(selected, len(within))
            selected = selected.where(sa.and_(*each) if has_every else sa.or_(*each))
            if index is not None or (has_trigrams and self._dialect.name == "sqlite"):
                selected = selected.where(self._is_found(index))
            if until is not None:
                selected = selected.where(self._up_to(len(within)))
            paged = self._paged(selected, self.terms(()), (False,) * len(beyond), len(within))
            return self._compiler.limited(paged, limit)

        shape = ("candidates", tuple(columns), len(patterns), has_every, max_characters)
        bounds = (after is None, until is None, has_trigrams, index, len(within))
        return self._statement((*shape, *bounds), select, values)

    def _is_found(self, index: WordIndex | None) -> sa.ColumnElement[bool]:
        """Return that a full-text index finds the row by the bound query `t`."""
        query = self._compiler.bind("t")
        if self._dialect.name == "postgresql" and index is not None:
            asked = sa.func.to_tsquery(sa.literal_column(index.configuration), query)
            return sa.literal_column(index.expression).op("@@", is_comparison=True)(asked)
        if self._dialect.name == "sqlite":
            texts = sa.table(index.table if index else self._name.name, sa.column("rowid"))
            found: sa.ColumnElement[bool] = _column(texts.name).op("MATCH")(query)
            if index is None or texts.name == self._name.name:
                return found
            return _column(index.key).in_(_select(texts.c.rowid).select_from(texts).where(found))
        # Imported here: the dialect of MariaDB.
        from sqlalchemy.dialects.mysql import match

        columns = [self._column(name) for name in index.columns] if index else []
        return match(*columns, against=query, in_boolean_mode=True)

    def key_at(
        self, place: int, *, after: Sequence[object] | None, within: Sequence[object] = ()
    ) -> Statement:
        """Select the key of one row: the first one after `after` has the place 0."""
        beyond = [self._rank(*pair) for pair in zip(self._key, after or (), strict=False)]
        values = {"limit": 1, "skip": place, **_values("w", within), **_values("k", beyond)}

        def select() -> Select:
            selected = self._conditions(self._select(*self._key), len(within))
            paged = self._paged(selected, self.terms(()), (False,) * len(beyond), len(within))
            return self._compiler.limited(paged, 1, place)

        return self._statement(("key at", after is not None, len(within)), select, values)

    def count_between(
        self, after: Sequence[object], until: Sequence[object], *, within: Sequence[object] = ()
    ) -> Statement:
        """Count the rows after a key, up to another."""
        beyond = [self._rank(*pair) for pair in zip(self._key, after, strict=True)]
        ends = [self._rank(*pair) for pair in zip(self._key, until, strict=True)]
        values = {**_values("w", within), **_values("k", beyond), **_values("u", ends)}

        def select() -> Select:
            counted = _select(sa.func.count()).select_from(self._table)
            counted = self._addressed(self._conditions(counted, len(within)))
            follows = self._follows(self.terms(()), (False,) * len(beyond), len(within))
            return counted.where(follows).where(self._up_to(len(within)))

        return self._statement(("count between", len(within)), select, values)

    def _up_to(self, place: int) -> sa.ColumnElement[bool]:
        """Return the condition that a row is no later than the bound key `u`, from a column on."""
        name = self._key[place]
        value, compared = self._bound(name, f"u{place}", ranked=True), self._ordered(name)
        if place + 1 == len(self._key):
            return compared <= value
        return sa.and_(compared <= value, sa.or_(compared < value, self._up_to(place + 1)))

    def _is_like(self, name: str, pattern: sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
        """Return that a column matches a pattern, in the form that its index of trigrams knows."""
        column = self._column(name)
        has_ilike = self._dialect.name == "postgresql"
        return (column.ilike if has_ilike else column.like)(pattern, escape=LIKE_ESCAPE)

    def _may_be_like(self, name: str, pattern: sa.BindParameter[Any]) -> sa.ColumnElement[bool]:
        """Return a condition that holds if the text of a column matches a pattern."""
        if self._dialect.name != "sqlite":
            return self._likes(self._any_text(name), pattern)
        # Three times as fast as on the text that is shown, which differs for reals only.
        column = self._column(name)
        is_real = sa.func.typeof(column) == sa.literal_column("'real'")
        return sa.or_(column.like(pattern, escape=LIKE_ESCAPE), is_real)

    def count(self, most: int | None = None) -> Statement:
        """Count the rows, up to `most`."""

        def select() -> Select:
            if most is None:
                counted = self._conditions(_select(sa.func.count()))
                return counted.select_from(self._table)
            some = _select(sa.literal_column("1").label("one")).select_from(self._table)
            counted = self._compiler.limited(self._conditions(some), most).subquery("counted")
            return _select(sa.func.count()).select_from(counted)

        return self._statement(("count", most is None), select, {"limit": most})

    def summary(
        self,
        by: Sequence[str],
        aggregates: Sequence[Aggregate],
        limit: int,
        *,
        skip: int = 0,
        selection: Selection = EVERYTHING,
    ) -> Statement:
        """Select groups of rows: the columns `by`, the number of rows, and the aggregates.

        The order names columns of `by`, `count` and aggregates; the columns of `by` come last.
        """

        def select() -> Select:
            groups: dict[str, sa.ColumnElement[Any]] = {name: self._value(name) for name in by}
            found = {
                COUNT: sa.func.count(),
                **{each.name: self._aggregate(each) for each in aggregates},
            }
            every = [*groups.values(), *found.values()]
            labelled = [each.label(f"c{place}") for place, each in enumerate(every)]
            selected = self._conditions(_select(*labelled).select_from(self._table))
            selected = self._filtered(selected, selection)
            columns = {name: self._column(name) for name in by}
            if by:
                selected = selected.group_by(*columns.values())
            named: dict[str, Any] = {**found, **columns}
            given = [
                named[each.column].desc() if each.is_descending else named[each.column]
                for each in selection.order
            ]
            ordered = selected.order_by(*given, *columns.values())
            return self._compiler.limited(ordered, limit, skip)

        values = {"limit": limit, "skip": skip, **self._filter_values(selection)}
        shape = ("summary", tuple(by), tuple(aggregates), selection.shape)
        return self._statement(shape, select, values)

    def _aggregate(self, aggregate: Aggregate) -> sa.ColumnElement[Any]:
        # MariaDB's `min` of BIT would be the text of the number, as bytes.
        ranked = self._ranked.get(aggregate.column)
        is_bits = ranked is not None and "sum" in ranked.functions
        of = (self._ordered if is_bits else self._value)(aggregate.column)
        found = getattr(sa.func, aggregate.function)(of)
        type = self._types.get(aggregate.column)
        if self._dialect.name == "postgresql" and type is not None and type.sql_type:
            # PostgreSQL's `min` of cidr is inet, which is spelt otherwise.
            return sa.cast(found, _SqlType(type.sql_type))
        return found

    def _filtered(self, selected: Select, selection: Selection) -> Select:
        """Add the conditions of a client."""
        for place, each in enumerate(selection.filters):
            selected = selected.where(self._filter(each, f"f{place}_"))
        return selected

    def _filter(self, filter: Filter, prefix: str) -> sa.ColumnElement[bool]:
        column = self._column(filter.column)
        if filter.operator == "null":
            return self._is_null(column) if filter.values[0] else sa.not_(self._is_null(column))
        if filter.operator == "like":
            pattern = self._compiler.bind(f"{prefix}0")
            return self._likes(self._any_text(filter.column), pattern)
        bound = [self._bound(filter.column, f"{prefix}{n}") for n in range(len(filter.values))]
        equal = [column == each for each in bound]
        match filter.operator:
            case "ne":
                return sa.and_(*(column != each for each in bound))
            case "eq" | "in":
                return sa.or_(*equal)
            case _:
                # In the order of the likeliest meaning; `le` is `lt` or `eq`, whichever it means.
                first = self._bound(filter.column, f"{prefix}0", ranked=True)
                compared = _COMPARISONS[filter.operator](self._ordered(filter.column), first)
                return sa.or_(compared, *equal[1:]) if filter.operator in ("le", "ge") else compared

    def _is_null(self, column: sa.ColumnClause[Any]) -> sa.ColumnElement[bool]:
        # MariaDB's `IS NULL` finds the date 0000-00-00 in columns without NULL; PostgreSQL's finds
        # a composite of nothing but NULL.
        is_exact = self._dialect.name in ("sqlite", "duckdb") or (
            self._dialect.name == "postgresql" and column.name in self._types
        )
        return column.is_(None) if is_exact else column.is_not_distinct_from(sa.null())

    def _filter_values(self, selection: Selection) -> dict[str, object]:
        return {
            f"f{place}_{number}": self._rank(each.column, value)
            if each.operator in _COMPARISONS and not number
            else value
            for place, each in enumerate(selection.filters)
            if each.operator != "null"
            for number, value in enumerate(each.values)
        }

    def repeated(self) -> Statement:
        """Select 1 if several rows share a key."""

        def select() -> Select:
            some = _select(sa.literal_column("1")).select_from(self._table)
            some = self._addressed(self._conditions(some))
            by_key = some.group_by(*map(self._column, self._key))
            several = by_key.having(sa.func.count() > sa.literal_column("1"))
            return self._compiler.limited(several, 1)

        return self._statement(("repeated",), select, {"limit": 1})

    def greatest(self, column: str) -> Statement:
        """Select the greatest value of a column, hidden or not, and the row count."""

        def select() -> Select:
            # Separate subqueries, so that each uses its best index.
            chosen = _select(sa.func.max(_column(column))), _select(sa.func.count())
            source = self._source((column,))
            asked = [self._conditions(each.select_from(source)) for each in chosen]
            return _select(*(each.scalar_subquery() for each in asked))

        return self._statement(("greatest", column), select, {})

    def _source(self, names: Iterable[str]) -> sa.TableClause:
        """Return the table with these columns; of a view, only the exposed rows."""
        every: list[sa.ColumnClause[Any]] = [sa.column(name) for name in names]
        source = sa.table(self._name.name, *every, schema=self._name.schema)
        if self._where_of_view is None:
            return source
        # A view's key may be computed, and its computation may fail on a hidden row. No condition
        # moves into a subquery with an offset or a limit.
        exposed = _select(*every).select_from(source).where(self._where_of_view)
        most: Any = _UNLIMITED.get(self._dialect.name)
        exposed = exposed.limit(None if most is None else cast("Any", sa.literal_column(most)))
        exposed = exposed.offset(cast("Any", sa.literal_column("0")))
        return cast("Any", exposed.subquery(self._name.name))

    def _statement(
        self,
        shape: tuple[object, ...],
        select: Callable[[], Select],
        values: Mapping[str, object],
    ) -> Statement:
        """Return a statement with its values; `select` runs once for each shape."""
        raw = {name for name, value in values.items() if isinstance(value, RawText)}
        if raw:
            # Too rare to cache.
            return self._compiler.compile(self._compiler.with_raw(select(), raw)).bind(values)
        plan = self._plans.get(shape)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[shape] = self._compiler.compile(select())
        return plan.bind(values)

    def _select(self, *names: str) -> Select:
        columns = [self._value(name).label(f"c{place}") for place, name in enumerate(names)]
        return _select(*columns).select_from(self._table)

    def _value(self, name: str) -> sa.ColumnElement[Any]:
        """Return a column as it is selected."""
        column = self._column(name)
        if name not in self._computed_reals:
            return column
        # SQLite returns 2.0 of a virtual column as 2 if it sorts the rows, else as 2.0.
        is_real = sa.func.typeof(column) == sa.literal_column("'real'")
        return sa.case((is_real, column + sa.literal_column("0.0")), else_=column)

    def _column(self, name: str) -> sa.ColumnClause[Any]:
        return self._table.c[name]

    def _match(self, name: str, max_characters: int, *, is_any: bool) -> sa.ColumnElement[Any]:
        """Return a column's truncated text, or NULL if it does not match the pattern."""
        text = self._any_text(name, max_characters)
        return text if is_any else sa.case((self._likes(text, self._compiler.bind("like")), text))

    def _any_text(self, name: str, max_characters: int | None = None) -> sa.ColumnElement[Any]:
        """Return a column's value as text, truncated if it is to be."""
        column, type = self._column(name), self._types.get(name)
        # PostgreSQL's cast removes the spaces at the end of `char(4)`.
        text: sa.ColumnElement[Any] = sa.cast(column, sa.Text)
        if self._dialect.name == "postgresql" and isinstance(type, Texts) and type.is_padded:
            text = sa.case((column.is_not(None), sa.func.concat(column)))
        if max_characters is not None:
            most: Any = cast("Any", sa.literal_column(str(max_characters)))
            text = sa.func.substr(text, sa.literal_column("1"), most)
        if self._dialect.name == "sqlite":
            # Any SQLite column may hold blobs, and the cast would read their bytes as text.
            kind = sa.func.typeof(self._column(name))
            is_real = kind == sa.literal_column("'real'")
            spelled = getattr(sa.func, REAL_TEXT)(self._column(name))
            is_blob = kind == sa.literal_column("'blob'")
            text = sa.case((is_real, spelled), (sa.not_(is_blob), text))
        return text

    def _likes(
        self, text: sa.ColumnElement[Any], pattern: sa.BindParameter[Any]
    ) -> sa.ColumnElement[bool]:
        """Return whether a text matches a pattern, ignoring the case of ASCII letters."""
        # The column's own collation may be case-sensitive or not support LIKE.
        collation = _COLLATIONS.get(self._dialect.name)
        compared = text if collation is None else sa.collate(text, collation)
        fits = compared.ilike if self._dialect.name in ("postgresql", "duckdb") else compared.like
        return fits(pattern, escape=LIKE_ESCAPE)

    def _ordered(self, name: str) -> sa.ColumnElement[Any]:
        """Return the expression that a column is ordered by."""
        column = self._column(name)
        return column + sa.literal_column("0") if name in self._ranked else column

    def _rank(self, name: str, value: object) -> object:
        """Return a column's value in the form that `_ordered` compares."""
        type = self._ranked.get(name)
        return value if type is None or value is None else type.rank(value)

    def _bound(self, column: str, parameter: str, *, ranked: bool = False) -> sa.ColumnElement[Any]:
        """Return a parameter that is compared with a column, or with what it is ordered by."""
        bound, type = self._compiler.bind(parameter), self._types.get(column)
        if type is None or not type.sql_type or (ranked and type.is_ranked):
            return bound
        return sa.cast(sa.cast(bound, sa.Text), _SqlType(type.sql_type))

    def _addressed(self, selected: Select) -> Select:
        """Omit rows with NULL in their key."""
        for name in self._nullable:
            selected = selected.where(self._column(name).is_not(None))
        return selected

    def _conditions(self, selected: Select, within: int = 0) -> Select:
        """Add the manifest's condition, and equality with the key prefix."""
        if self._where is not None:
            selected = selected.where(self._where)
        for place, name in enumerate(self._key[:within]):
            selected = selected.where(self._column(name) == self._bound(name, f"w{place}"))
        return selected


class _SqlType(sa.types.UserDefinedType[Any]):
    """A type as its engine writes it."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name  # by this name SQLAlchemy copies it

    def get_col_spec(self, **_: Any) -> str:
        """Return the type in SQL."""
        return self.name


class Compiler:
    """Compiles statements to the driver's SQL.

    SQLAlchemy finds its own positional placeholders by their look, which a name or a condition may
    have, too (`"%(limit)s"`). So parameters get a prefix here that none of the texts contains.
    """

    def __init__(self, dialect: Dialect, texts: Sequence[str]) -> None:
        make: Any = type(dialect)
        self._dialect: Dialect = make(paramstyle="named")
        self._style = dialect.paramstyle
        self._prefix = "p_"
        while any(self._prefix in text for text in texts):
            self._prefix += "_"
        self._marker = re.compile(f":{self._prefix}([a-z0-9_]+)")

    def compile(self, statement: Select) -> _Plan:
        """Return a plan whose parameters have the names given to `bind`."""
        texts = self._marker.split(str(statement.compile(dialect=self._dialect)))
        names = tuple(texts[1::2])
        if self._style == "format":
            texts[::2] = [text.replace("%", "%%") for text in texts[::2]]
        texts[1::2] = [_placeholder(self._style, place) for place in range(1, len(names) + 1)]
        return _Plan("".join(texts), names)

    def bind(self, name: str) -> sa.BindParameter[Any]:
        """Return a parameter."""
        # No type: bound values have the column's type already.
        return sa.bindparam(self._prefix + name, type_=sa.types.NullType())

    def name(self, name: str) -> str:
        """Return a name that no text of the statement contains."""
        return self._prefix + name

    def limited(self, selected: Select, limit: int, skip: int | None = None) -> Select:
        """Limit a statement to rows, after some; here by the parameters `limit` and `skip`."""
        limited = selected.limit(self.bind("limit"))
        if skip is not None:
            return limited.offset(self.bind("skip"))
        # SQLAlchemy would add a parameter of its own for the offset.
        return limited.offset(sa.literal_column("0")) if self._style == "qmark" else limited

    def with_raw(self, statement: Select, names: Collection[str]) -> Select:
        """Bind these parameters as bytes and cast them to text.

        SQLite reads the bytes in the encoding of its file. In UTF-16 they would be another text, so
        the value is NULL there, which matches no key. `CASE` has no affinity, like a parameter.
        """
        keys = {self._prefix + name: name for name in names}

        def replacement(element: Any, **_: object) -> Any:
            if not isinstance(element, sa.BindParameter) or element.key not in keys:
                return None
            is_utf_8 = sa.literal_column("CAST('a' AS BLOB) = x'61'", sa.Boolean)
            return sa.case((is_utf_8, sa.cast(self.bind(keys[element.key]), sa.Text)))

        return cast("Select", replacement_traverse(statement, {}, replacement))


def _placeholder(style: str, place: int) -> str:
    return {"format": "%s", "qmark": "?"}.get(style, f"${place}")


def _column(name: str) -> sa.ColumnClause[Any]:
    return sa.column(name)


def _select(*columns: Any) -> Select:
    return sa.select(*columns)


def _values(prefix: str, values: Sequence[object]) -> dict[str, object]:
    return {f"{prefix}{place}": value for place, value in enumerate(values)}
