"""Generated schemas: tables and views with every sort of column, key, index, name and value."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from hypothesis import strategies as st

from tests.worlds.column_types import (
    LABELS,
    POSTGRES_SETUP,
    SQLITE_STRICT_TYPES,
    TYPES,
    EngineName,
    around,
    literal,
    quoted,
    random_value,
)
from tests.worlds.databases import ENGINES, TAG, Relation, Schema

_NAMES = (
    *("a", "b", "c", "A", "name", "id", "key", "value", "order", "select", "limit", "group", "end"),
    *("rowid", "oid", "_rowid_", "found", "place", "c0", "c1", "k0", "w0", "some", "next", "more"),
    *("a b", " a", "a.b", "a/b", "a,b", "a;b", "a'b", 'a"b', "a`b", "a\\b", "a%b", "a?b#c", "a:b"),
    *("%", "%s", "%(k0)s", "%(limit)s", "%%", ":k0", "$1", "?", "*", "[a]", "{a}", "@a", "--"),
    *("/*",),
    *("~", "~rows", "~schema", "~cell", "~query", "~ta", "~n", "..", ".", "1", "NULL", "true", "5"),
    *("ä", "Ä", "a\u0308", "ß", "İ", "表", "😀", "\u202e", "a\nb", "a\tb", "x" * 60, "_links", "é"),
)


@cache
def _names(engine: EngineName) -> st.SearchStrategy[str]:
    odd = (*_NAMES, "a" * 63) if engine == "postgresql" else _NAMES
    if engine == "mariadb":
        odd = tuple(name for name in odd if "😀" not in name)  # none outside of the first plane
    return st.sampled_from(("a", "b", "c", "d", "e")) | st.sampled_from(odd)


def _distinct(engine: EngineName) -> Callable[[str], str]:
    # PostgreSQL alone tells names by their case.
    return str if engine == "postgresql" else str.casefold


@dataclass(frozen=True)
class _Column:
    name: str
    definition: str
    """The type and constraints, as in CREATE TABLE."""
    literals: tuple[str, ...] | None
    """Values to choose from; None for a generated column."""
    collatable: bool


@st.composite
def _columns(draw: st.DrawFn, engine: EngineName, *, strict: bool) -> list[_Column]:
    names = draw(
        st.lists(
            _names(engine).filter(lambda name: name.casefold() != TAG),
            min_size=1,
            max_size=4,
            unique_by=_distinct(engine),
        )
    )
    return [draw(_column(engine, name, strict=strict)) for name in names]


@st.composite
def _column(draw: st.DrawFn, engine: EngineName, name: str, *, strict: bool) -> _Column:
    if draw(st.integers(0, 9)) == 9:
        return draw(_generated_column(engine, name))
    types = SQLITE_STRICT_TYPES if strict else TYPES[engine]
    kind = draw(st.sampled_from(types))
    type = kind.type
    if "{labels}" in type:
        labels = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=6, unique=True))
        type = type.replace("{labels}", ", ".join(literal(engine, each) for each in labels))
    least = min(draw(st.sampled_from((6, 1, 12, 25))), len(kind.literals))
    # One draw for many values: hypothesis takes longer for each than most engines do.
    chance = random.Random(draw(st.integers(0, 2**16)))  # noqa: S311
    pool = chance.sample(kind.literals, least)
    if draw(st.integers(0, 3)) == 3:
        pool.append(draw(random_value(engine, kind.type)))
    required = draw(st.booleans())
    if not required and draw(st.booleans()):
        pool.append("NULL")
    textual = any(word in kind.type.lower() for word in ("char", "text", "name"))
    null = " NOT NULL" if required else ""
    return _Column(name, f"{type}{null}", tuple(pool), engine == "sqlite" or textual)


@st.composite
def _generated_column(draw: st.DrawFn, engine: EngineName, name: str) -> _Column:
    choices = {
        "sqlite": (
            "{} AS (tag * 2) {}",
            "{} AS ('v' || tag) {}",
            "{} AS (tag / 2.0) {}",
            "{} AS (-tag) {}",
        ),
        "postgresql": ("{} GENERATED ALWAYS AS (tag * 2) {}", "{} GENERATED ALWAYS AS (-tag) {}"),
        "mariadb": ("{} AS (tag * 2) {}", "{} AS (-tag) {}", "{} AS (concat('v', tag)) {}"),
    }[engine]
    types = {
        "sqlite": ("INTEGER", "TEXT", "BLOB", "REAL", "ANY"),
        "postgresql": ("integer", "bigint", "numeric"),
        "mariadb": ("int", "varchar(20)", "bigint", "decimal(10,2)"),
    }[engine]
    kept = "STORED" if engine == "postgresql" else draw(st.sampled_from(("STORED", "VIRTUAL")))
    expression = draw(st.sampled_from(choices)).format(draw(st.sampled_from(types)), kept)
    required = " NOT NULL" if engine != "mariadb" and draw(st.booleans()) else ""
    return _Column(name, expression + required, None, collatable=False)


@st.composite
def _key_columns(draw: st.DrawFn, columns: Sequence[_Column]) -> list[_Column]:
    return draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3, unique=True))


@st.composite
def _clauses(
    draw: st.DrawFn, engine: EngineName, columns: Sequence[_Column], always: Sequence[str]
) -> list[str]:
    """Return key constraints for the CREATE TABLE statement; each has the columns `always`."""
    found: list[str] = []
    stored = [column for column in columns if column.literals is not None or engine == "postgresql"]
    if stored and draw(st.integers(0, 2)) < 2:
        chosen = draw(_key_columns(stored))
        terms = [*(draw(_term(engine, column, in_index=False)) for column in chosen), *always]
        end = ""
        if engine == "postgresql":
            end = draw(st.sampled_from(("", "", "", " DEFERRABLE", f" INCLUDE ({TAG})")))
        found.append(f"PRIMARY KEY ({', '.join(terms)}){end}")
    for _ in range(draw(st.integers(0, 2))):
        chosen = draw(_key_columns(columns))
        terms = [*(draw(_term(engine, column, in_index=False)) for column in chosen), *always]
        start, end = "UNIQUE", ""
        if engine == "postgresql":
            start = draw(st.sampled_from(("UNIQUE", "UNIQUE NULLS NOT DISTINCT")))
            ends = ("", "", " DEFERRABLE INITIALLY DEFERRED", " DEFERRABLE", f" INCLUDE ({TAG})")
            end = draw(st.sampled_from(ends))
        elif engine == "mariadb":
            end = draw(st.sampled_from(("", "", " USING HASH")))
        found.append(f"{start} ({', '.join(terms)}){end}")
    return found


@st.composite
def _term(draw: st.DrawFn, engine: EngineName, column: _Column, *, in_index: bool) -> str:
    """Return one column of an index: with a collation, an order, a prefix, or in an expression."""
    name = quoted(engine, column.name)
    order = draw(st.sampled_from(("", "", "", " DESC")))
    match engine:
        case "sqlite":
            collations = ("", "", "", " COLLATE NOCASE", " COLLATE BINARY", " COLLATE RTRIM")
            return name + draw(st.sampled_from(collations)) + order
        case "postgresql":
            if not in_index:
                return name
            variants = ["{0}", "{0}", "{0}", "{0}", "({0}::text)", "{0} NULLS FIRST"]
            if column.collatable:
                variants += ['{0} COLLATE "C"', '{0} COLLATE "ci"', "{0} text_pattern_ops"]
                variants += ["lower({0})", '{0} COLLATE "en-x-icu"']
            return draw(st.sampled_from(variants)).format(name) + order
        case "mariadb":
            lengths = ("", "", "(1)", "(3)") if column.collatable else ("",)
            if column.definition.startswith(("text", "tinytext", "blob")):
                lengths = ("(1)", "(3)", "(20)")
            return name + draw(st.sampled_from(lengths)) + order
        case "duckdb":
            raise AssertionError("DuckDB has no worlds")


@st.composite
def _indexes(
    draw: st.DrawFn,
    engine: EngineName,
    table: str,
    number: int,
    columns: Sequence[_Column],
    *,
    always: Sequence[str],
) -> list[str]:
    """Return CREATE UNIQUE INDEX statements; each index has the columns `always`."""
    found: list[str] = []
    for place in range(draw(st.integers(0, 2))):
        chosen = draw(_key_columns(columns))
        terms = [*(draw(_term(engine, column, in_index=True)) for column in chosen), *always]
        end = ""
        if engine != "mariadb":
            ends = [
                "",
                "",
                "",
                f" WHERE {TAG} < 3",
                f" WHERE {quoted(engine, chosen[0].name)} IS NOT NULL",
            ]
            if engine == "postgresql":
                ends += [f" INCLUDE ({TAG})", " NULLS NOT DISTINCT"]
            end = draw(st.sampled_from(ends))
        index = f"i{number}_{place} ON {quoted(engine, table)}"
        found.append(f"CREATE UNIQUE INDEX {index} ({', '.join(terms)}){end}")
    return found


@st.composite
def relations(draw: st.DrawFn, engine: EngineName, name: str, number: int) -> Relation:
    """Return a table, sometimes behind a view, of at most some twenty rows.

    `number` distinguishes the names of what belongs to it.
    """
    if engine == "sqlite" and draw(st.integers(0, 19)) == 19:
        return draw(_virtual_tables(name))
    strict = engine == "sqlite" and draw(st.integers(0, 3)) == 3
    columns = draw(_columns(engine, strict=strict))
    definitions = [f"{quoted(engine, column.name)} {column.definition}" for column in columns]
    rowid_alias = engine == "sqlite" and draw(st.integers(0, 3)) == 3
    if rowid_alias:
        first = columns[0]
        columns[0] = _Column(first.name, "", ("NULL", *around(32, 64)), collatable=False)
        ending = draw(st.sampled_from(("", "", " DESC", " AUTOINCREMENT")))
        definitions[0] = f"{quoted(engine, first.name)} INTEGER PRIMARY KEY{ending}"
    kind = "bigint" if engine == "mariadb" else "integer"
    tag = f"{TAG} {kind}"
    if draw(st.booleans()):
        definitions.append(tag)
    else:
        definitions.insert(0, tag)
    served, name = name, draw(_table_behind(engine, name, number))
    end, after = draw(_storage(engine, name, number, strict=strict))
    # Every unique key of a partitioned table has to contain what it is partitioned by.
    partitioned = [TAG] if "PARTITION" in end else []
    clauses = draw(_clauses(engine, columns, partitioned))
    if rowid_alias:
        clauses = [clause for clause in clauses if not clause.startswith("PRIMARY")]
    if not rowid_alias and not any(clause.startswith("PRIMARY") for clause in clauses):
        end = end.replace(", WITHOUT ROWID", "").replace("WITHOUT ROWID", "")
    given = [column for column in columns if column.literals is not None]
    count = draw(st.sampled_from((4, 12, 30, 0)))
    numbers = draw(st.lists(st.integers(0, 2**32), min_size=count, max_size=count))
    rows = [tuple(_chosen(number, given)) for number in numbers]
    body = ", ".join([*definitions, *clauses])
    create = (
        f"CREATE TABLE {quoted(engine, name)} ({body}){end}",
        *after,
    )
    indexes = draw(_indexes(engine, name, number, columns, always=partitioned))
    relation = Relation(
        name,
        (*create, *indexes),
        tuple(column.name for column in given),
        tuple(rows),
        tuple(_children(after, name, number)),
    )
    return relation if served == name else draw(_behind_a_view(engine, relation, served, number))


def _chosen(number: int, columns: Iterable[_Column]) -> Iterable[str]:
    """Yield a value of each column; the number says which."""
    for column in columns:
        literals = column.literals or ()
        number, place = divmod(number, len(literals))
        yield literals[place]


@st.composite
def _table_behind(draw: st.DrawFn, engine: EngineName, name: str, number: int) -> str:
    """Return the name of the table: another one if a view has the given one."""
    return f"base{number}" if draw(st.integers(0, 7)) == 7 else name


@st.composite
def _types(draw: st.DrawFn, relations: Iterable[Relation]) -> list[str]:
    """Return the statements that make the types and collations of some relations."""
    labels = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=8, unique=True))
    written = ", ".join(literal("postgresql", label) for label in labels)
    text = "".join(each for relation in relations for each in relation.create)
    found: list[str] = []
    for name, statement in reversed(POSTGRES_SETUP.items()):
        if f'"{name}"' in text:
            text += statement  # which may need another one
            found.insert(0, statement.format(labels=written))
    return found


@st.composite
def _storage(
    draw: st.DrawFn, engine: EngineName, name: str, number: int, *, strict: bool
) -> tuple[str, list[str]]:
    """Return the end of the CREATE TABLE statement, and statements after it."""
    table = quoted(engine, name)
    match engine:
        case "sqlite":
            options = ["STRICT"] if strict else []
            if draw(st.integers(0, 2)) == 2:
                options.append("WITHOUT ROWID")
            return " " + ", ".join(options), []
        case "postgresql":
            match draw(st.integers(0, 9)):
                case 9:
                    child = f"child{number}"
                    made = [f"CREATE TABLE {child} () INHERITS ({table})"]
                    if draw(st.booleans()):
                        made.append(f"CREATE TABLE grand{child} (more text) INHERITS ({child})")
                    return "", made
                case 8:
                    by = draw(st.sampled_from(("HASH", "LIST")))
                    key = TAG
                    parts = [f"CREATE TABLE part{number}_{n} PARTITION OF {table}" for n in (0, 1)]
                    bounds = (" FOR VALUES IN (0, 2, 4)", " DEFAULT")
                    if by == "HASH":
                        modulus = " FOR VALUES WITH (MODULUS 2, REMAINDER"
                        bounds = (f"{modulus} 0)", f"{modulus} 1)")
                    made = [part + bound for part, bound in zip(parts, bounds, strict=True)]
                    return f" PARTITION BY {by} ({key})", made
                case _:
                    return "", []
        case "mariadb":
            engines = ("InnoDB", "InnoDB", "InnoDB", "Aria", "MyISAM", "MEMORY")
            end = f" ENGINE={draw(st.sampled_from(engines))}"
            more = (
                "",
                "",
                "",
                "",
                " WITH SYSTEM VERSIONING",
                f" PARTITION BY HASH ({TAG}) PARTITIONS 2",
            )
            return end + draw(st.sampled_from(more)), []
        case "duckdb":
            raise AssertionError("DuckDB has no worlds")


def _children(after: Sequence[str], name: str, number: int) -> Iterable[str]:
    yield name
    for statement in after:
        if "INHERITS" in statement:
            yield statement.split()[2]


@st.composite
def _behind_a_view(
    draw: st.DrawFn, engine: EngineName, relation: Relation, name: str, number: int
) -> Relation:
    choice = draw(st.sampled_from(("plain", "twice", "materialized")))
    view, table = quoted(engine, name), quoted(engine, relation.name)
    if choice == "materialized" and engine == "postgresql":
        first = quoted(engine, relation.columns[0] if relation.columns else TAG)
        return Relation(
            name,
            (*relation.create, f"CREATE MATERIALIZED VIEW {view} AS SELECT * FROM {table}"),  # noqa: S608
            relation.columns,
            relation.rows,
            relation.into,
            (
                f"REFRESH MATERIALIZED VIEW {view}",
                f"CREATE UNIQUE INDEX v{number} ON {view} ({first})",
            ),
        )
    select = f"SELECT * FROM {table}"  # noqa: S608
    if choice == "twice":
        select += f" UNION ALL SELECT * FROM {table}"  # noqa: S608
    statement = f"CREATE VIEW {view} AS {select}"
    return Relation(
        name,
        (*relation.create, statement),
        relation.columns,
        relation.rows,
        relation.into,
    )


@st.composite
def _virtual_tables(draw: st.DrawFn, name: str) -> Relation:
    table = quoted("sqlite", name)
    rows = draw(st.integers(0, 8))
    if draw(st.booleans()):
        create = f"CREATE VIRTUAL TABLE {table} USING rtree(id, low, high, +{TAG})"
        values = tuple((str(place * 3), str(place), str(place + 1)) for place in range(rows))
        return Relation(name, (create,), ("id", "low", "high"), values, (name,))
    create = f"CREATE VIRTUAL TABLE {table} USING fts5({TAG} UNINDEXED, body)"
    values = tuple((literal("sqlite", f"words {place}"),) for place in range(rows))
    return Relation(name, (create,), ("body",), values, (name,))


_SETTINGS: Mapping[EngineName, Sequence[str]] = {
    "sqlite": (
        *("PRAGMA encoding = 'UTF-16le'", "PRAGMA encoding = 'UTF-16be'"),
        *("PRAGMA journal_mode = WAL", "PRAGMA page_size = 512"),
    ),
    "postgresql": (
        "ALTER DATABASE {} SET TimeZone = 'Asia/Kolkata'",
        "ALTER DATABASE {} SET TimeZone = 'America/St_Johns'",
        "ALTER DATABASE {} SET DateStyle = 'German'",
        "ALTER DATABASE {} SET IntervalStyle = 'sql_standard'",
        "ALTER DATABASE {} SET bytea_output = 'escape'",
        "ALTER DATABASE {} SET extra_float_digits = -3",
        "ALTER DATABASE {} SET standard_conforming_strings = off",
        "ALTER DATABASE {} SET enable_seqscan = off",
        "ALTER DATABASE {} SET enable_indexscan = off",
        "ALTER DATABASE {} SET enable_sort = off",
        "ALTER DATABASE {} SET quote_all_identifiers = on",
        "ALTER DATABASE {} SET transform_null_equals = on",
        "ALTER DATABASE {} SET lc_monetary = 'C'",
        "ALTER DATABASE {} SET search_path = ''",
    ),
    "mariadb": (
        "ALTER DATABASE {} CHARACTER SET latin1",
        "ALTER DATABASE {} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "ALTER DATABASE {} CHARACTER SET utf16",
    ),
}
"""What an owner may set for a database, and every connection then has."""


@st.composite
def schemas(
    draw: st.DrawFn, engines: Sequence[EngineName] = ENGINES, *, max_relations: int = 8
) -> Schema:
    """Return a schema of one of the engines."""
    engine = draw(st.sampled_from(engines))
    count = min(draw(st.sampled_from((1, 2, 4, 8))), max_relations)
    namespace = "public"
    if engine == "postgresql":
        namespace = draw(st.sampled_from(("public",) * 5 + ('a"b', "Ä b/~rows", "a%(k0)s")))
    several = st.lists(_names(engine), min_size=count, max_size=count, unique_by=_distinct(engine))
    names = draw(several)
    made = tuple(draw(relations(engine, name, place)) for place, name in enumerate(names))
    settings = draw(st.lists(st.sampled_from(_SETTINGS[engine]), max_size=2, unique=True))
    if engine == "postgresql":
        settings += draw(_types(made))
    return Schema(engine, made, namespace, tuple(settings))
