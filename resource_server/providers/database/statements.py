"""The SQL of rows, pages and counts of one table, in the words of its engine; by SQLAlchemy Core.

Names come from reflection and are quoted by the dialect, values are bound. Pages go by key, never
by offset: the condition is an inclusive bound on the first column and the lexicographic order
behind it, which every engine answers from an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import Dialect

from resource_server.providers.database.engine import Statement
from resource_server.providers.database.table import Table

_Select: TypeAlias = "sa.Select[*tuple[Any, ...]]"


class _Plan(NamedTuple):
    """A compiled statement; `names` are its parameters in the order of their places."""

    sql: str
    names: tuple[str, ...]
    own: Mapping[str, object]
    """Values of parameters that the dialect has added."""

    def bind(self, values: Mapping[str, object]) -> Statement:
        every = {**self.own, **values}
        return Statement(self.sql, tuple([every[name] for name in self.names]))


class Statements:
    """Statements about one table as it may be seen; compiled once each.

    `columns` are those to be fetched, in order; `where` is a condition of the manifest's author.
    """

    def __init__(
        self, dialect: Dialect, table: Table, columns: Sequence[str], where: str | None
    ) -> None:
        self._dialect = dialect
        self._columns = tuple(columns)
        self._key = table.key
        names = dict.fromkeys((*self._columns, *self._key))
        every: list[sa.ColumnClause[Any]] = [sa.column(name) for name in names]
        self._table = sa.table(table.name.name, *every, schema=table.name.schema)
        self._where: sa.ColumnElement[bool] | None = None
        if where is not None:
            self._where = sa.literal_column(f"({where}\n)", sa.Boolean)
        self._plans: dict[tuple[object, ...], _Plan] = {}

    def page(
        self,
        limit: int,
        *,
        after: Sequence[object] | None = None,
        within: Sequence[object] = (),
        columns: Sequence[str] | None = None,
    ) -> Statement:
        """Select rows in the order of their key, those after the key `after`; else in any order.

        `within` are values of the first key columns, for rows that have these. The key's columns
        are selected behind `columns`.
        """
        wanted = self._columns if columns is None else tuple(columns)
        shape = ("page", wanted, after is not None, len(within))
        plan = self._plans.get(shape)
        if plan is None:
            selected = self._select(*wanted, *self._key)
            selected = self._conditions(selected, len(within), self._key if after else ())
            ordered = selected.order_by(*map(self._column, self._key)).limit(_bind("limit"))
            plan = self._plans[shape] = self._compile(ordered)
        return plan.bind({"limit": limit, **_values("w", within), **_values("k", after or ())})

    def rows(self, keys: Sequence[Sequence[object]]) -> Statement:
        """Select the rows that have any of these keys, in any order; the key behind the columns."""
        shape = ("rows", len(keys))
        plan = self._plans.get(shape)
        if plan is None:
            each = [
                sa.and_(
                    *(
                        self._column(name) == _bind(f"k{number}_{place}")
                        for place, name in enumerate(self._key)
                    )
                )
                for number in range(len(keys))
            ]
            found = self._conditions(self._select(*self._columns, *self._key), 0, ())
            plan = self._plans[shape] = self._compile(found.where(sa.or_(*each)))
        return plan.bind(
            {
                f"k{number}_{place}": value
                for number, key in enumerate(keys)
                for place, value in enumerate(key)
            }
        )

    def prefixes(
        self, limit: int, *, within: Sequence[object] = (), after: object | None = None
    ) -> Statement:
        """Select the different values of one column of a key of several, each found by the index.

        It is the column that follows the values `within`; those greater than `after`.
        """
        shape = ("prefixes", len(within), after is not None)
        plan = self._plans.get(shape)
        if plan is None:
            column = self._column(self._key[len(within)])
            least = self._conditions(_select(sa.func.min(column)), len(within), ())
            first = least if after is None else least.where(column > _bind("k0"))
            # Counted, since MariaDB would go on to the last value whatever the limit.
            found = _select(
                first.scalar_subquery().label("value"), sa.literal_column("1").label("place")
            ).cte("found", recursive=True)
            following = least.where(column > found.c.value).scalar_subquery()
            goes_on = sa.and_(found.c.value.is_not(None), found.c.place < _bind("limit"))
            found = found.union_all(_select(following, found.c.place + 1).where(goes_on))
            chosen = _select(found.c.value).where(found.c.value.is_not(None))
            plan = self._plans[shape] = self._compile(chosen.order_by(found.c.place))
        values = {"limit": limit, **_values("w", within)}
        return plan.bind({**values, "k0": after})

    def count(self, most: int | None = None) -> Statement:
        """Count the rows, or with `most` no further than to that many."""
        shape = ("count", most is None)
        plan = self._plans.get(shape)
        if plan is None:
            if most is None:
                counted = self._conditions(_select(sa.func.count()), 0, ())
                counted = counted.select_from(self._table)
            else:
                some = _select(sa.literal_column("1")).select_from(self._table)
                some = self._conditions(some, 0, ()).limit(_bind("limit")).subquery("some")
                counted = _select(sa.func.count()).select_from(some)
            plan = self._plans[shape] = self._compile(counted)
        return plan.bind({"limit": most})

    def greatest(self, column: str) -> Statement:
        """Select the greatest value of a column, and how many rows there are."""
        shape = ("greatest", column)
        plan = self._plans.get(shape)
        if plan is None:
            chosen = _select(sa.func.max(self._column(column)), sa.func.count())
            found = self._conditions(chosen.select_from(self._table), 0, ())
            plan = self._plans[shape] = self._compile(found)
        return plan.bind({})

    def _select(self, *names: str) -> _Select:
        columns = [self._column(name).label(f"c{place}") for place, name in enumerate(names)]
        return _select(*columns).select_from(self._table)

    def _column(self, name: str) -> sa.ColumnClause[Any]:
        return self._table.c[name]

    def _conditions(self, selected: _Select, within: int, after: Sequence[str]) -> _Select:
        """Add the manifest's condition, equality with the prefix, and what comes after a key."""
        if self._where is not None:
            selected = selected.where(self._where)
        for place, name in enumerate(self._key[:within]):
            selected = selected.where(self._column(name) == _bind(f"w{place}"))
        return selected if not after else selected.where(self._beyond(after, within))

    def _beyond(self, names: Sequence[str], first: int) -> sa.ColumnElement[bool]:
        """Return the condition that a key comes after the bound one, from its column `first` on."""
        condition: sa.ColumnElement[bool] | None = None
        for place in reversed(range(first, len(names))):
            column, value = self._column(names[place]), _bind(f"k{place}")
            if condition is None:
                condition = column > value
            else:
                condition = sa.and_(column >= value, sa.or_(column > value, condition))
        return cast("sa.ColumnElement[bool]", condition)

    def _compile(self, statement: _Select) -> _Plan:
        compiled = statement.compile(dialect=self._dialect)
        names: Sequence[str] = getattr(compiled, "positiontup", None) or ()
        own = {name: value for name, value in compiled.params.items() if value is not None}
        return _Plan(str(compiled), tuple(names), own)


def _select(*columns: Any) -> _Select:
    return sa.select(*columns)


def _bind(name: str) -> sa.BindParameter[Any]:
    # No type: what is bound is of the column's own type already.
    return sa.bindparam(name, type_=sa.types.NullType())


def _values(prefix: str, values: Sequence[object]) -> dict[str, object]:
    return {f"{prefix}{place}": value for place, value in enumerate(values)}
