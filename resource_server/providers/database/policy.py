"""Exposure policy of a database: visible tables and columns, keys, row conditions and masks."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from fnmatch import translate
from hashlib import blake2b
from itertools import product
from typing import Any, NamedTuple

import msgspec

from resource_server.providers.database import row_claims
from resource_server.providers.database.engines.contract import EngineName, ViewReads
from resource_server.providers.database.engines.reflection import (
    Column,
    ColumnKind,
    ForeignKey,
    Index,
    Key,
    Table,
    TableName,
    TableType,
    backquoted,
)
from resource_server.providers.database.masks import Masker
from resource_server.providers.database.options import ColumnOptions, TableOptions
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.providers.database.queries.sql_tokenizer import SqlToken
from resource_server.providers.database.row_claims import RowCondition
from resource_server.runtime.near_name import did_you_mean, near_name, sentences
from resource_server.runtime.server_key import ServerKey, process_key

_HASH_PURPOSE = "mask: hash"
_ORDER_PURPOSE = "order of masked"
_EVERYTHING = TableOptions()
_ANY_ROW = "1 = 1"
"""The condition of tables of which the database itself hides rows."""
_SPECIAL = frozenset("*?[")
_SEPARATORS = re.compile(r"[-_ .]+")
_FIRST_COUNTS = (
    "the first entry that matches a table counts; repeat its options here, or write `expose: true`"
)
_WILD = re.compile(r"[*?\[\]]")
_STOPPED = (
    "Nothing of the database is served until this is right, or has `optional: true` for a table "
    "that may come later"
)
_CLOSE = 0.8
"""Ratio of characters in common from which a part of a name, or an existing table, may be meant."""
TEXTS: Collection[ColumnKind] = ("text", "json", "uuid", "any")
"""Kinds of columns that are searched unless the manifest names others."""
_UNKNOWN_ROWS = (
    "its definition is not shown to this login, and the rows of tables that it may read are "
    "filtered by claims"
)
WITHHELD = (
    "The table is not served until this is right",
    "These tables are not served until this is right",
)
_MAX_DECIDED = 50_000
"""Maximum number of tables whose matching rule is cached; pattern matching is slow."""


class Problem(NamedTuple):
    """An option that does not fit the database, for the manifest's author."""

    option: str
    """Path of the option below the database: `tables.orders.key`."""
    message: str
    stops: bool = False
    """Whether nothing of the database is served until the option is right: it may mean a table
    whose name is near."""


class TableView:
    """One exposed table as clients see it, without any hidden name.

    Only `mask` masks values: code that fetches a masked column handles raw values. A masked column
    is never part of a key, condition or suggestion, nor of an order but by digests with a secret.
    """

    def __init__(
        self, table: Table, options: TableOptions, maskers: Mapping[str, Masker], order_key: str
    ) -> None:
        self.table = table
        """The table without hidden parts; masked columns are text. A reader fetches these columns
        and those of the key, which are never masked."""
        self.options = options
        self.maskers = maskers
        """The function that masks each masked column."""
        self.order_key = order_key
        """The secret of the digests that order rows by masked values."""

    @property
    def masked(self) -> frozenset[str]:
        """The columns with masked values."""
        return frozenset(self.maskers)

    @property
    def searchable(self) -> frozenset[str]:
        """The columns allowed in comparisons, orders and completions."""
        return frozenset(self.table.column_names) - self.masked

    @property
    def is_copy(self) -> bool:
        """Whether it shows the text of another table, where it is searched by default."""
        return self.table.type == "virtual table" and not self.table.holds_text

    def searched(self, engine: str) -> tuple[str, ...]:
        """Return the columns that search looks into: those that the manifest names, or of text.

        There are none if the rows have no address.
        """
        if not (self.options.rows and self.table.key):
            return ()
        columns = [column for column in self.table.columns if column.name in self.searchable]
        if self.options.search is True:
            texts = [c.name for c in columns if c.kind in TEXTS and _has_text(c, engine)]
            return () if self.is_copy else tuple(texts)
        meant = {_find(name, self.table.column_names) for name in _declared_search(self.options)}
        return tuple([c.name for c in columns if c.name in meant and _has_text(c, engine)])

    def mask(
        self, rows: Sequence[tuple[object, ...]], columns: Sequence[str]
    ) -> list[tuple[object, ...]]:
        """Return fetched rows of these columns with masked values."""
        masked = [(place, self.maskers.get(name)) for place, name in enumerate(columns)]
        places = [(place, masker) for place, masker in masked if masker is not None]
        if not places:
            return list(rows)
        shown: list[tuple[object, ...]] = []
        for row in rows:
            values = list(row)
            for place, masker in places:
                values[place] = masker(values[place])
            shown.append(tuple(values))
        return shown


class Rule(NamedTuple):
    """One entry of `tables`."""

    pattern: str
    options: TableOptions | None
    expression: re.Pattern[str] | None
    """Compiled pattern, in lower case; None without wildcards."""
    names: frozenset[str]
    """Identifiers read by `where` and `change`, in lower case."""
    is_optional: bool = False
    """Whether its table may come later."""
    compared: tuple[str, ...] = ()
    """Text in double quotes that `where` compares with something: MariaDB has no such names."""
    condition: RowCondition | None = None
    """The `where` with claims; that of the options then has NULL in their place."""

    def fits(self, names: Sequence[str]) -> bool:
        """Return whether it matches a table with these spellings."""
        lower = [name.casefold() for name in names]
        if self.pattern.casefold() in lower:
            return True
        return self.expression is not None and any(map(self.expression.fullmatch, lower))

    @property
    def restricts(self) -> bool:
        """Whether it hides or masks a table or any part of it."""
        return self.options is None or _is_restricted(self.options)

    @property
    def protects(self) -> bool:
        """Whether anything would be seen, by anybody, that is not seen because of it."""
        if self.options is None or _is_restricted(self.options):
            return True
        options = self.options
        return bool(options.access.scopes) or not (options.rows and options.listed)

    @property
    def is_carried(self) -> bool:
        """Whether views of the policy differ because of it."""
        return self.restricts or not (
            self.options and self.options.rows and not self.options.expose
        )

    @property
    def covered(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that it hides or masks, by option."""
        columns = ColumnOptions() if self.options is None else self.options.columns
        return {"columns.hide": columns.hide, "columns.mask": tuple(columns.mask)}


class Policy:
    """The `tables` of the manifest: options by name or pattern; the first match counts.

    A pattern is a name or has the wildcards `*`, `?` and `[…]`. It matches `orders` and
    `public.orders`, ignoring case like most databases, because hiding too much is safer than hiding
    too little. An entry with the exact name of a table matches no other. A table without a match is
    exposed whole.

    Args:
        tables: options by pattern, or whether the table is exposed.
        engine: the engine that reads conditions.
        key: the key of the server; by default the key of the process.
        needed: names of the claims by which the database itself hides rows of any table.
        dialect: the SQL in which claims are compared; by default that of the engine.

    Raises:
        ValueError: a pattern or condition cannot be used; names the option.
    """

    def __init__(
        self,
        tables: Mapping[str, TableOptions | bool],
        engine: EngineName,
        *,
        key: ServerKey | None = None,
        needed: frozenset[str] = frozenset(),
        dialect: str | None = None,
    ) -> None:
        self._engine: EngineName = engine
        self.dialect = dialect or engine
        """The SQL in which claims are compared. See `row_claims`."""
        self.key = key or process_key()
        """The key of the server, from which that of hashes is derived."""
        self._rules = [_rule(pattern, given, engine) for pattern, given in tables.items()]
        self._exact = frozenset(tables)
        self.refused: Mapping[TableName, str] = {}
        """Views that are hidden because of what they show, each with the reason."""
        self._copies = set[TableName]()
        """Virtual tables that may show the rows of other tables."""
        self.unprotected: Mapping[TableName, Problem] = {}
        """Tables that are hidden because a rule would not protect them, each with the problem."""
        self.unserved: Sequence[TableName] | None = ()
        """Tables that are there and not served, such as those that the login may not read; None
        if the engine does not tell."""
        self.unexamined: Collection[TableName] = ()
        """Views that may show hidden columns: the engine cannot tell."""
        self.claims = frozenset[str]().union(
            *(rule.condition.claims for rule in self._rules if rule.condition)
        )
        """Names of the claims that conditions use."""
        self.needed = needed
        """Names of the claims by which the database itself hides rows of any table."""
        self.values: Mapping[str, Any] = {}
        """Values of claims; tables whose conditions use others do not exist."""
        self._decided: dict[TableName, Rule | None] = {}
        self._named_tables = frozenset[str]().union(*(rule.names for rule in self._rules))
        self._hides = any(
            rule.options is None or rule.options.columns.covered for rule in self._rules
        )

    def with_claims(self, values: Mapping[str, Any]) -> Policy:
        """Return the policy for callers with these values of claims."""
        found = copy(self)
        found.values = values
        return found

    @property
    def owner(self) -> Hashable:
        """The callers whose policy it is, by their claims."""
        return msgspec.json.encode(self.values, order="sorted") if self.values else None

    def lacks_claims(self, name: TableName) -> Sequence[str]:
        """Return the claims without which a table does not exist."""
        rule = self._rule(name)
        own = frozenset[str]() if rule is None or rule.condition is None else rule.condition.claims
        return sorted((own | self.needed) - self.values.keys())

    def row_claims(self, name: TableName) -> Sequence[str]:
        """Return the claims that the condition of a table uses."""
        rule = self._rule(name)
        return () if rule is None or rule.condition is None else sorted(rule.condition.claims)

    def read_by_claims(self, name: TableName, every: Iterable[TableName]) -> Sequence[TableName]:
        """Return the other tables in whose columns a condition of this table compares claims."""
        rule = self._rule(name)
        condition = None if rule is None else rule.condition
        if rule is None or condition is None or not any(e.is_inner for e in condition.comparisons):
            return ()
        return [each for each in every if each.name.casefold() in rule.names and each != name]

    def digest(self, *more: object) -> str:
        """Return a digest of the rules that views of the policy carry, and of more."""
        rules = [
            (rule.pattern, o and (o.columns.hide, o.columns.mask, o.where, o.rows, bool(o.expose)))
            for place, rule in enumerate(self._rules)
            if rule.is_carried or self._exempts(place)
            for o in [rule.options]
        ]
        return blake2b(msgspec.json.encode([rules, *more]), digest_size=16).hexdigest()

    def _exempts(self, place: int) -> bool:
        """Return whether an entry without a rule keeps a table from the rule of another entry."""
        rule = self._rules[place]
        return any(
            other.is_carried and _overlap(rule, other)
            for at, other in enumerate(self._rules)
            # An exact entry counts before one in another case, wherever it stands.
            if at > place or not (rule.expression or other.expression)
        )

    @property
    def stopped(self) -> Problem | None:
        """The problem that stops the whole mount, or None."""
        return next((each for each in self.unprotected.values() if each.stops), None)

    @property
    def has_rules(self) -> bool:
        """Whether any entry hides or restricts anything."""
        return any(rule.protects for rule in self._rules)

    @property
    def hashes_change(self) -> bool:
        """Whether a mask gives other values after every start."""
        rules = [rule.options for rule in self._rules if rule.options is not None]
        masks = {mask for options in rules for mask in options.columns.mask.values()}
        return "hash" in masks and not self.key.is_lasting

    @property
    def hides_columns(self) -> bool:
        """Whether any column of a table may be hidden or masked."""
        rules = [rule.options for rule in self._rules if rule.options is not None]
        return any(options.columns.covered for options in rules)

    def consents(self, view: TableName) -> bool:
        """Return whether the view's own entry decides what it shows; a pattern never does."""
        rule = self._rule(view)
        if rule is None or rule.expression is not None:
            return False
        options = None if view in self.unprotected else rule.options
        return options is not None and _is_decided(options)

    def refuse_views(
        self, views: Mapping[TableName, TableType], reads: Mapping[TableName, ViewReads]
    ) -> None:
        """Hide the views that show hidden or masked columns, or tables that are unprotected.

        So are virtual tables that show the rows of a table that hides any of them. A view whose own
        entry consents is not hidden. `reads` are the columns that each view reads, not through
        other views.
        """
        self.refused = {}
        self._copies = {view for view, type in views.items() if type == "virtual table"}
        self.unexamined = [v for v in views if v not in reads and not self.consents(v)]
        unknown = dict.fromkeys(self.unexamined if self.claims else (), _UNKNOWN_ROWS)
        self.refused = unknown | {
            view: f"it shows {_shown(column)} of '{table.name}', which"
            f" {self.rule(table)} hides or masks"
            for view in reads
            if (found := self._revealed(view, reads, set())) is not None
            for table, column in [found]
        }

    def _revealed(
        self, view: TableName, reads: Mapping[TableName, ViewReads], seen: set[TableName]
    ) -> tuple[TableName, str] | None:
        """Return a hidden or masked column that a view shows without consent, or None."""
        if view in seen or self.consents(view):
            return None
        seen.add(view)
        for table, column in sorted(reads.get(view, ()), key=_qualified):
            if table in self.unprotected:
                return table, column
            if self.row_claims(table):
                return table, "*"
            options = self.of(table)
            covered = () if options is None else options.columns.covered
            if covered and (column == "*" or _has(covered, column)):
                return table, column
            if view in self._copies and (options is None or options.where is not None):
                return table, "*"
            if table in reads and (found := self._revealed(table, reads, seen)) is not None:
                return found
        return None

    def of(self, name: TableName) -> TableOptions | None:
        """Return the options of a table, or None if it is hidden."""
        if name in self.refused or name in self.unprotected or self.lacks_claims(name):
            return None
        rule = self._rule(name)
        options = _EVERYTHING if rule is None else rule.options
        if self.needed and options is not None and options.where is None:
            return msgspec.structs.replace(options, where=_ANY_ROW)
        return options

    def rule(self, name: TableName) -> str | None:
        """Return the option that applies to a table: `tables.audit_*`."""
        if name in self.unprotected:
            return self.unprotected[name].option
        if name in self.refused:
            return "views"
        rule = self._rule(name)
        return None if rule is None else f"tables.{rule.pattern}"

    @property
    def is_restricting(self) -> bool:
        """Whether any table is not exposed whole."""
        return bool(self.needed) or any(rule.restricts for rule in self._rules)

    def restricts(self, name: TableName) -> bool:
        """Return whether a table is hidden, or partly hidden or masked.

        The option `rows` does not count: it only removes documents.
        """
        options = self.of(name)
        return options is None or _is_restricted(options)

    def readable(self, table: str, column: str, *, through: str | None = None) -> bool:
        """Return whether our own SQL may read a column, for SQLite's authorizer.

        Column "" means the existence of rows. `through` is the view that reads the column: it
        selects its own columns, so only the view has to be exposed. Generated SQL names only
        exposed columns, but conditions of the manifest may read hidden columns and tables.
        """
        if through is not None or not column or table.casefold() in self._named_tables:
            return True
        rule = self._rule(TableName(None, table))
        name = TableName(None, table)
        options = None if rule is None else rule.options
        if rule is None:
            options = _EVERYTHING
        if options is None or name in self.refused or name in self.unprotected:
            return False
        read_by_condition = rule is not None and column.casefold() in rule.names
        return read_by_condition or not _has(options.columns.hide, column)

    def view(self, table: Table, others: Sequence[Table] = ()) -> TableView:
        """Return the visible part of an exposed table; `others` are those of `read_by_claims`.

        Raises:
            ValueError: the table is not exposed.
        """
        options = self.of(table.name)
        if options is None:
            raise ValueError("a table that is not exposed has no view")
        rule = self._rule(table.name)
        if rule is not None and rule.condition is not None:
            where = rule.condition.rendered(self.values, table, others, self.dialect)
            options = msgspec.structs.replace(options, where=where)
        if any(self.values.get(name) is None for name in self.needed):
            options = msgspec.structs.replace(options, where=row_claims.NOTHING)
        hidden = {c.name for c in table.columns if _has(options.columns.hide, c.name)}
        maskers = {
            column.name: Masker(mask, self.key.derived(_HASH_PURPOSE))
            for column in table.columns
            for written, mask in options.columns.mask.items()
            if column.name not in hidden and _same(written, column.name)
        }
        covered = hidden | maskers.keys()
        foreign_keys = [
            foreign
            for foreign in table.foreign_keys
            if covered.isdisjoint(foreign.columns) and self._shows(foreign)
        ]
        shown = msgspec.structs.replace(
            table,
            columns=tuple(
                [_column(c, hidden, maskers) for c in table.columns if c.name not in hidden]
            ),
            foreign_keys=tuple(foreign_keys),
            indexes=_indexes(table, hidden) if options.columns.hide else table.indexes,
            # It names the hidden tables and columns that it refers to.
            ddl=None if self._hides else table.ddl,
        )
        shown = shown.with_key(_keys(table, options, covered))
        order_key = self.key.derived(_ORDER_PURPOSE).hex()
        return TableView(shown, options, maskers, order_key)

    def problems(self, names: Iterable[TableName], tables: Iterable[Table]) -> list[Problem]:
        """Return the options that match nothing or cannot have their effect.

        `names` are the names of all tables, `tables` the exposed tables.
        """
        by_rule: dict[str, list[Table]] = {}
        for table in tables:
            rule = self._rule(table.name)
            if rule is not None:
                by_rule.setdefault(rule.pattern, []).append(table)
        found: list[Problem] = []
        for rule in self._rules:
            if rule.options is not None and rule.pattern in by_rule:
                fitting = by_rule[rule.pattern]
                found += [problem for problem, _ in lacking(rule, fitting)]
                found += _column_problems(rule.pattern, rule.options, fitting)
                found += _search_problems(rule.pattern, rule.options, fitting, self._engine)
                found += self._overruled(rule, fitting)
        return [*(problem for problem, _ in self.unused(list(names))), *found]

    def _overruled(self, rule: Rule, tables: Sequence[Table]) -> Iterator[Problem]:
        """Yield what an entry without rules shows although a later one hides or masks it."""
        if rule.options is None or _is_decided(rule.options):
            return
        for other in self._rules[self._rules.index(rule) + 1 :]:
            if other.options is None:  # entries above `"*": false` name what is served
                continue
            covered = other.options.columns.covered
            fitting = [each for each in tables if other.fits(_spellings(each.name))]
            shown = [f"'{name}'" for name in _columns(fitting) if _has(covered, name)]
            shown += ["all rows"] if fitting and other.options.where else []
            if shown:
                what = f"shows {', '.join(shown)}, which the entry '{other.pattern}' hides or masks"
                yield Problem(f"tables.{rule.pattern}", f"{what}: {_FIRST_COUNTS}")

    def decided(self, names: Iterable[TableName]) -> Sequence[tuple[Rule, Sequence[TableName]]]:
        """Return each entry with the tables that it decides for."""
        found: dict[str, list[TableName]] = {rule.pattern: [] for rule in self._rules}
        for name in names:
            if (rule := self._rule(name)) is not None:
                found[rule.pattern].append(name)
        return [(rule, found[rule.pattern]) for rule in self._rules]

    def unused(self, names: Sequence[TableName]) -> list[tuple[Problem, Sequence[TableName]]]:
        """Return the entries that decide for no table, each with the tables it should protect."""
        found: list[tuple[Problem, Sequence[TableName]]] = []
        for rule, decided in self.decided(names):
            if decided:
                continue
            fitting = [name for name in names if rule.fits(_spellings(name))]
            if fitting:
                shown = [name for name in fitting if rule.protects and self._is_exposed(name)]
                text = "is never used; an earlier entry matches the same tables"
                ending = WITHHELD[len(shown) > 1] if shown else ""
                found.append((Problem(f"tables.{rule.pattern}", sentences(text, ending)), shown))
            elif not rule.is_optional and (problem := self._misnamed(rule, names)) is not None:
                found.append((problem, ()))
        return found

    def _misnamed(self, rule: Rule, names: Sequence[TableName]) -> Problem | None:
        unserved = self.unserved or ()
        if any(rule.fits(_spellings(name)) for name in unserved):
            return None
        written = _WILD.sub("", rule.pattern)
        known = [spelling for name in names for spelling in _spellings(name)]
        parts = [part for each in known for part in _parts(each)] if rule.expression else ()
        # `false` may mean a table that the login may not read: `orders_old` beside `orders`.
        may_exist = rule.options is None and self.unserved is None
        alike = [each for each in known if len(_words(each)) == len(_words(written))]
        near = near_name(written, alike, ratio=_CLOSE) if may_exist else near_name(written, known)
        near = near or near_name("_".join(_words(written)), parts, ratio=_CLOSE)
        stops = rule.protects and near is not None
        if may_exist and not stops:
            return None
        meant = did_you_mean(written, known) or (f"; did you mean '{near}'?" if near else "")
        what = "table matches this pattern" if rule.expression else f"table '{rule.pattern}'"
        text = sentences(f"no {what}{meant}", _STOPPED if stops else "")
        return Problem(f"tables.{rule.pattern}", text, stops)

    def _is_exposed(self, name: TableName) -> bool:
        rule = self._rule(name)
        return rule is None or rule.options is not None

    def lacking(self, table: Table) -> Problem | None:
        """Return the column that an entry of this name hides or masks and the table lacks."""
        rule = self._rule(table.name)
        if rule is None or rule.expression is not None:
            return None
        return next((problem for problem, _ in lacking(rule, [table])), None)

    def _rule(self, name: TableName) -> Rule | None:
        # Threads look for near names meanwhile, so the cache may be cleared at any time.
        try:
            return self._decided[name]
        except KeyError:
            found = self._first_that_fits(name)
        if len(self._decided) >= _MAX_DECIDED:
            self._decided.clear()
        self._decided[name] = found
        return found

    def _first_that_fits(self, name: TableName) -> Rule | None:
        names = [name.name] if name.schema is None else [f"{name.schema}.{name.name}", name.name]
        exact = [each for each in names if each in self._exact]
        for rule in self._rules:
            # `orders` does not match the table "Orders" if that has an entry of its own.
            foreign = exact and rule.expression is None and rule.pattern not in names
            if not foreign and rule.fits(names):
                return rule
        return None

    def _shows(self, foreign: ForeignKey) -> bool:
        """Return whether the referenced table and columns are visible and unmasked."""
        options = self.of(foreign.table)
        if options is None:
            return False
        covered = options.columns.covered
        return not any(_has(covered, column) for column in foreign.referred)


def _rule(pattern: str, given: TableOptions | bool, engine: EngineName) -> Rule:
    if not pattern:
        raise ValueError("tables: an empty name matches no table")
    wild = not _SPECIAL.isdisjoint(pattern)
    expression = re.compile(translate(pattern.casefold())) if wild else None
    if isinstance(given, bool):
        return Rule(pattern, _EVERYTHING if given else None, expression, frozenset())
    if given.expose is False:
        return Rule(pattern, None, expression, frozenset(), is_optional=given.optional)
    names: set[str] = set()
    condition = None
    if given.where is not None:
        try:
            tokens = sql_tokenizer.statement(given.where, engine)
            if engine == "sqlite":
                tokens = [token._replace(text=_certain(token)) for token in tokens]
            condition = row_claims.row_condition(tokens)
            others = [token.text for token in tokens if token.kind == "parameter"]
            if any(name != row_claims.PARAMETER for name in others):
                raise ValueError(
                    "has a parameter; write the value itself, or a claim of the caller as "
                    ":claims.sub"
                )
        except ValueError as error:
            raise ValueError(f"tables.{pattern}.where: {error}") from None
        names = {name.casefold() for name in row_claims.names_in(tokens)}
        where = "".join([token.text for token in tokens])
        where = where if condition is None else condition.without_values
        given = msgspec.structs.replace(given, where=where)
    if given.change is not None:
        names.add(given.change.column.casefold())
    return Rule(
        pattern,
        given,
        expression,
        frozenset(names),
        is_optional=given.optional,
        compared=sql_tokenizer.compared_texts(given.where or "", engine),
        condition=condition,
    )


def _certain(token: SqlToken) -> str:
    """Return a token of SQLite, which takes a name in double quotes that nothing has for text."""
    name = token.identifier
    return token.text if token.kind != "name" or name is None else backquoted(name)


def _shown(column: str) -> str:
    return "rows" if column == "*" else f"'{column}'"


def _is_decided(options: TableOptions) -> bool:
    return bool(options.expose) or _is_restricted(options)


def _qualified(read: tuple[TableName, str]) -> tuple[str, str, str]:
    (schema, name), column = read
    return schema or "", name, column


def _is_restricted(options: TableOptions) -> bool:
    return bool(options.columns.covered or options.where)


def _same(written: str, name: str) -> bool:
    return written.casefold() == name.casefold()


def _has(names: Iterable[str], name: str) -> bool:
    return any(_same(each, name) for each in names)


def _indexes(table: Table, hidden: Set[str]) -> tuple[Index, ...]:
    """Return the indexes of visible columns, without names, where columns are hidden.

    An expression or a condition may name a hidden column, and a name may tell of one: engines
    number theirs (`sqlite_autoindex_codes_2`). The manifest decides, not whether the column exists.
    """
    shown = [
        Index("", index.columns, index.unique)
        for index in table.indexes
        if not (index.partial or None in index.columns or hidden & set(index.columns))
    ]
    return tuple(sorted(shown, key=lambda index: (index.columns, index.unique)))


def _column(column: Column, hidden: set[str], maskers: Mapping[str, Masker]) -> Column:
    if column.name in maskers:
        # Its kind, default and values are wrong for masked values, or reveal the real ones.
        return msgspec.structs.replace(column, kind="text", default=None, values=())
    default = column.default
    if default is not None and any(name.casefold() in default.casefold() for name in hidden):
        return msgspec.structs.replace(column, default=None)
    return column


def _keys(table: Table, options: TableOptions, covered: set[str]) -> list[Key]:
    """Return the keys that can address rows, best first: the declared one if its columns exist."""
    keys = [Key(table.key_kind, table.key), *table.other_keys] if table.key else []
    declared = [_find(name, table.column_names) for name in options.key]
    columns = tuple([name for name in declared if name is not None])
    hidden = options.columns.covered
    if any(
        _has(hidden, name) and found is None
        for name, found in zip(options.key, declared, strict=True)
    ):
        return []  # as if the hidden column were there
    if columns and len(columns) == len(declared) and columns != table.key:
        typed = {column.name for column in table.columns if column.is_address}
        keys = [Key("declared", columns)] if typed.issuperset(columns) else []
    usable = [key for key in keys if covered.isdisjoint(key.columns)]
    if any(_same("rowid", name) for name in covered):
        # SQLite authorizes the rowid under this name.
        usable = [key for key in usable if key.kind != "rowid"]
    return usable


def _find(name: str, columns: Sequence[str]) -> str | None:
    """Return the column of exactly this name, or the only match that ignores case."""
    if name in columns:
        return name
    found = [column for column in columns if _same(name, column)]
    return found[0] if len(found) == 1 else None


def _overlap(one: Rule, other: Rule) -> bool:
    """Return whether two entries may match the same table."""
    if one.expression is not None and other.expression is not None:
        return True
    exact, wild = (one, other) if one.expression is None else (other, one)
    own = exact.pattern.casefold().rpartition(".")[2]
    if wild.expression is None:
        return own == wild.pattern.casefold().rpartition(".")[2]
    return "." in wild.pattern or wild.fits([exact.pattern, own])


def lacking(rule: Rule, tables: Sequence[Table]) -> Iterable[tuple[Problem, Sequence[TableName]]]:
    """Yield the columns that a rule hides or masks and its tables lack, each with these tables.

    An entry with the name of a table means this table, a pattern any of the tables. A login that
    may read single columns of a table may not see the others: then only a column with a name like
    one that it sees is missing. The tables of an optional pattern may come later, and so may their
    columns.
    """
    groups = [[table] for table in tables] if rule.expression is None else [tables]
    if rule.is_optional and rule.expression is not None:
        return
    for option, names in rule.covered.items():
        for name, group in product(names, groups):
            if any(_has((*each.column_names, *(each.unread or ())), name) for each in group):
                continue
            is_near = near_name(name, _columns(group)) is not None
            if not is_near and any(each.unread is None for each in group):
                continue
            text = sentences(_no_column(name, group), WITHHELD[len(group) > 1])
            yield Problem(f"tables.{rule.pattern}.{option}", text), [each.name for each in group]


def _words(name: str) -> list[str]:
    return [word for word in _SEPARATORS.split(name) if word]


def _parts(name: str) -> list[str]:
    """Return the beginnings and ends of a name, in words: `hr_pay_old` has `hr_pay` and `old`."""
    words = _words(name)
    places = range(1, len(words))
    return ["_".join(part) for at in places for part in (words[:at], words[at:])]


def _spellings(name: TableName) -> list[str]:
    return [name.name] if name.schema is None else [name.name, f"{name.schema}.{name.name}"]


def _change_problems(pattern: str, options: TableOptions) -> Iterable[Problem]:
    if options.change is not None and _has(options.columns.covered, options.change.column):
        yield Problem(
            f"tables.{pattern}.change.column",
            f"'{options.change.column}' is hidden or masked, so changes beyond the first 998 rows "
            "of a table are not notified to its subscribers; name a visible column",
        )


def _columns(tables: Sequence[Table]) -> list[str]:
    return [column for table in tables for column in table.column_names]


def _no_column(name: str, tables: Sequence[Table]) -> str:
    where = f"table '{tables[0].name.name}'" if len(tables) == 1 else "any such table"
    return f"no column '{name}' in {where}{did_you_mean(name, _columns(tables))}"


def _column_problems(
    pattern: str, options: TableOptions, tables: Sequence[Table]
) -> Iterable[Problem]:
    """Yield other columns that no table of a pattern has, and keys that are hidden or masked."""
    change = () if options.change is None else (options.change.column,)
    for option, columns in (
        ("key", options.key),
        ("change.column", change),
        ("search", _declared_search(options)),
    ):
        for name in columns:
            if not any(_has(table.column_names, name) for table in tables):
                yield Problem(f"tables.{pattern}.{option}", _no_column(name, tables))
    covered = options.columns.covered
    yield from _change_problems(pattern, options)
    for table in tables:
        hidden = {name for name in table.column_names if _has(covered, name)}
        keys = _keys(table, options, set())
        named = [column for column in table.columns if _has(options.key, column.name)]
        for column in named if not keys else ():
            if not column.is_address:
                yield Problem(
                    f"tables.{pattern}.key",
                    f"rows of '{table.name.name}' have no address: values of type "
                    f"'{column.type}' of '{column.name}' cannot be part of a key",
                )
        if not keys or _keys(table, options, hidden):
            continue
        for column in keys[0].columns:
            if column in hidden:
                yield Problem(
                    f"tables.{pattern}.columns",
                    f"rows of '{table.name.name}' have no address: their key column "
                    f"'{column}' is hidden or masked",
                )


def _search_problems(
    pattern: str, options: TableOptions, tables: Sequence[Table], engine: str
) -> Iterable[Problem]:
    """Yield the columns that are never searched, with the reason."""
    option = f"tables.{pattern}.search"
    if _declared_search(options) and not options.rows:
        yield Problem(option, "rows are not exposed (`rows: false`), so none can be found")
        return
    covered = options.columns.covered
    for name in _declared_search(options):
        if _has(covered, name):
            yield Problem(option, f"'{name}' is hidden or masked, so it is never searched")
            continue
        for table in tables:
            found = _find(name, table.column_names)
            column = next((column for column in table.columns if column.name == found), None)
            if column is not None and not _has_text(column, engine):
                yield Problem(
                    option,
                    f"'{name}' of '{table.name.name}' is never searched: values of type "
                    f"'{column.type}' are not text",
                )
    for table in tables if _declared_search(options) else ():
        if not _keys(table, options, set()):
            yield Problem(
                option,
                f"rows of '{table.name.name}' have no key, so none can be found; declare a `key`",
            )


def _declared_search(options: TableOptions) -> tuple[str, ...]:
    """Return the columns that the manifest names for search."""
    return () if isinstance(options.search, bool) else options.search


def _has_text(column: Column, engine: str) -> bool:
    if engine == "generic":
        return column.key_type is not None and column.key_type.has_text
    # MySQL and MariaDB cannot cast geometric shapes to text; other servers can.
    textless = column.kind == "other" and engine in ("mysql", "mariadb")
    return column.kind != "blob" and not textless
