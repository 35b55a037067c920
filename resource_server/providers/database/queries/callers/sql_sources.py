"""Sources of a syntax tree: what its FROM clauses name, with their columns.

PostgreSQL calls the function `f` where `x` in `x.f` has no column `f`, so a column is only known
here if it certainly is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, cast

from sqlglot import exp

_COLUMNS_OF: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(
        ("json_each", "json_each_text", "jsonb_each", "jsonb_each_text"), ("key", "value")
    ),
    **dict.fromkeys(
        (
            "json_array_elements",
            "json_array_elements_text",
            "jsonb_array_elements",
            "jsonb_array_elements_text",
        ),
        ("value",),
    ),
}
"""Columns of functions; of others, the only one has the name of their alias."""


class Sources:
    """The sources of one tree, each with an alias.

    Args:
        tree: the tree; tables and functions without an alias get one.
        columns: returns what a table stands for: its columns, or a common table expression.
        folded: returns a name of a column as it is compared.
    """

    def __init__(
        self,
        tree: exp.Expr,
        columns: Callable[[exp.Table], Sequence[str] | exp.CTE],
        folded: Callable[[str], str],
    ) -> None:
        self._tree = tree
        self._columns = columns
        self._folded = folded
        self._named: dict[int, dict[str, exp.Expr]] = {}
        self._outputs: dict[int, Sequence[str]] = {}
        for source in tree.find_all(exp.Table, exp.Lateral, exp.Unnest):
            if not source.alias and not isinstance(source.parent, exp.Lateral | exp.Table):
                name = source.name if _is_table(source) else _called(source) or "function"
                alias = source.args.get("alias") or exp.TableAlias()
                alias.set("this", exp.to_identifier(name, quoted=True))
                source.set("alias", alias)

    def of(self, column: exp.Column) -> exp.Expr | None:
        """Return what the table of a column names, in the nearest SELECT around it."""
        for select in _around(column):
            if found := self._in(select).get(column.table):
                return found
        return None

    def has(self, source: exp.Expr, name: str) -> bool:
        """Return whether a source certainly has a column."""
        return self._folded(name) in self._outputs_of(source)

    def possible(self, column: exp.Column) -> Sequence[exp.Expr]:
        """Return the sources that a column may be of, if it is of any."""
        if column.table:
            source = self.of(column)
            return () if source is None else (source,)
        found: list[exp.Expr] = []
        for select in _around(column):
            sources = self._in(select).values()
            if certain := [source for source in sources if self.has(source, column.name)]:
                return found + certain
            found += sources
        return found

    def make_unique(self) -> None:
        """Give every source a name of its own, which no two readers take for different ones."""
        columns = [column for column in self._tree.find_all(exp.Column) if not column.db]
        named = [(column, self._meant(column)) for column in columns]
        used = {alias.name for alias in self._tree.find_all(exp.TableAlias)}
        seen: set[str] = set()
        numbers = count(2)
        for alias in list(self._tree.find_all(exp.TableAlias)):
            source = alias.parent
            if source is None or isinstance(source, exp.CTE) or not alias.name:
                continue
            if alias.name in seen:
                if _is_function(source) and _called(source) not in _COLUMNS_OF:
                    alias.set("columns", alias.columns or [alias.this])
                name = alias.name
                while name in used:
                    name = f"{alias.name[:10]}_{next(numbers)}"  # no engine shortens it
                alias.set("this", exp.to_identifier(name, quoted=True))
            seen.add(alias.name)
        for column, source in named:
            if source is not None:
                part = "table" if column.table else "this"
                column.set(part, exp.to_identifier(source.alias, quoted=True))

    def _meant(self, column: exp.Column) -> exp.Expr | None:
        """Return the source that a column, or the row of a source, names."""
        if column.table:
            return self.of(column)
        if isinstance(column.this, exp.Star):
            return None
        for select in _around(column):
            sources = self._in(select)
            if any(self.has(source, column.name) for source in sources.values()):
                return None
            if (row := sources.get(column.name)) is not None:
                return None if _is_function(row) else row
        return None

    def _in(self, select: exp.Select) -> Mapping[str, exp.Expr]:
        """Return what a SELECT reads, by alias."""
        if id(select) not in self._named:
            found: dict[str, exp.Expr] = {}
            for alias, source in _sources(select):
                found.setdefault(alias, source)
            self._named[id(select)] = found
        return self._named[id(select)]

    def _outputs_of(self, source: exp.Expr) -> Sequence[str]:
        if id(source) not in self._outputs:
            self._outputs[id(source)] = ()  # of what a recursive query reads of itself
            found = dict.fromkeys(map(self._folded, self._columns_of(source)))
            self._outputs[id(source)] = tuple(found)
        return self._outputs[id(source)]

    def _columns_of(self, source: exp.Expr) -> Iterator[str]:
        alias = source.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            yield from [column.name for column in alias.columns]
            if isinstance(offset := source.args.get("offset"), exp.Identifier):
                yield offset.name
            return
        if isinstance(source, exp.Query | exp.Values):
            yield from self._results_of(source)
        elif _is_table(source):
            known = self._columns(cast("exp.Table", source))
            yield from self._outputs_of(known) if isinstance(known, exp.CTE) else known
        elif _is_function(source):
            yield from _COLUMNS_OF.get(_called(source), (source.alias,))
            if source.args.get("ordinality") or source.args.get("offset"):
                yield "ordinality"
        elif isinstance(source, exp.CTE | exp.Lateral):
            yield from self._outputs_of(source.this)

    def _results_of(self, query: exp.Expr) -> Iterator[str]:
        match query:
            case exp.Select():
                for selected in query.expressions:
                    yield from self._selected(query, selected)
            case exp.Subquery(this=exp.Table() | exp.Subquery()):  # of a join
                for _, inner in _below(query.this):
                    yield from self._outputs_of(inner)
            case exp.Values():
                width = min((len(row.expressions) for row in query.expressions), default=0)
                yield from [f"column{place + 1}" for place in range(width)]
            case _:  # the first of a UNION gives the names
                yield from self._outputs_of(query.this)

    def _selected(self, select: exp.Select, selected: exp.Expr) -> Iterator[str]:
        sources = self._in(select)
        match selected:
            case exp.Paren():
                yield from self._selected(select, selected.this)
            case exp.Star() if not any(selected.args.values()):
                for source in sources.values():
                    yield from self._outputs_of(source)
            case exp.Column(this=exp.Star() as star):
                if not any(star.args.values()) and selected.table in sources:
                    yield from self._outputs_of(sources[selected.table])
            case exp.Cast() if isinstance(selected.this, exp.Column | exp.Cast | exp.Anonymous):
                yield from self._selected(select, selected.this)
            case _:
                yield from _name_of(selected)


def _name_of(selected: exp.Expr) -> Iterator[str]:
    """Yield the name of a selected expression, if that is certain."""
    match selected:
        case exp.Alias() | exp.Column(this=exp.Identifier()):
            yield selected.alias_or_name
        case exp.Case() if selected.args.get("default") is None:
            yield "case"
        case exp.Anonymous() if isinstance(selected.this, str):
            yield selected.this.lower()
        case exp.Func() if not isinstance(selected, exp.Cast | exp.Case | exp.Binary):
            yield selected.sql_name().lower()
        case _:
            pass


def _around(node: exp.Expr) -> Iterator[exp.Select]:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Select):
            yield parent
        parent = parent.parent


def _sources(select: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    clauses = [
        select.args.get("from_"),
        *select.args.get("joins", ()),
        *select.args.get("laterals", ()),
    ]
    for clause in clauses:
        if clause is not None:
            yield from _below(clause.this if isinstance(clause, exp.From | exp.Join) else clause)


def _below(source: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    if source.alias:
        yield source.alias, source
    elif isinstance(source, exp.Subquery | exp.Paren) and not isinstance(source.this, exp.Query):
        yield from _below(source.this)
    for join in source.args.get("joins") or ():
        yield from _below(join.this)


def _is_table(source: exp.Expr) -> bool:
    return isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)


def _is_function(source: exp.Expr) -> bool:
    """Return whether something in FROM is a function, and no table or query."""
    return isinstance(source, exp.Unnest) or (
        isinstance(source, exp.Table | exp.Lateral)
        and not isinstance(source.this, exp.Identifier | exp.Query | exp.Values)
    )


def _called(source: exp.Expr) -> str:
    """Return the name of a function in FROM, or nothing if it has an unusual form."""
    function = source if isinstance(source, exp.Unnest) else source.this
    match function:
        case exp.ExplodingGenerateSeries():
            return "generate_series"
        case exp.Anonymous() if isinstance(function.this, str):
            return function.this.lower()
        case exp.Func():
            return function.sql_name().lower()
        case _:
            return ""
