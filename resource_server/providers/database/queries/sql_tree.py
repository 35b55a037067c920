"""The SQL of callers as a syntax tree: resolved, then written anew from the tree.

The text of a caller never reaches a database: not its comments, spellings or odd literals, which a
parser and a database might read in two ways. The SQL that is written instead is canonical. Every
name is quoted, every bare word is in the engine's vocabulary, every table is a visible one or a
common table expression of the statement, and values that need escapes are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.tokenizer_core import Token, TokenType

from resource_server.providers.database.engines.contract import (
    EngineName,
    RefusedStatement,
    Statement,
)
from resource_server.providers.database.queries.sql_vocabulary import VOCABULARY

MAX_CHARACTERS: Final = 20_000
"""Maximum characters of a statement: parsing takes about 20 ms per 1,000."""
_DIALECTS: Final[Mapping[EngineName, str]] = {
    "postgresql": "postgres",
    "mysql": "mysql",
    "mariadb": "mysql",
    "duckdb": "duckdb",
}
_OURS: Final = "~"
"""Start of the names that stand for parameters in the tree; no name of a caller has it."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_TEXT: Final = re.compile(r"[^'\\\x00-\x1f\x7f]*")
"""Strings that every engine reads as they are written; others become parameters."""
_FUNCTION_COLUMNS: Final = frozenset(("key", "value", "ordinality"))
"""Columns of functions in FROM without a list of columns."""
_DUCKDB_SOURCES: Final = frozenset(
    ("generate_series", "json_each", "json_tree", "range", "repeat_row", "unnest")
)
"""Functions in FROM that read their arguments alone: others read the tables that these name."""
_FIRST: Final = frozenset(
    (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.TABLE, TokenType.FROM)
)
_REFUSED_NODES: Final[Mapping[type[exp.Expr], str]] = {
    exp.Placeholder: "write parameters as :name",
    exp.Parameter: "variables are not available",
    exp.SessionParameter: "variables are not available",
    exp.Hint: "hints are not available",
    exp.Lock: "locks are not available",
    exp.Into: "INTO is not available",
    exp.TableSample: "TABLESAMPLE is not available",
    exp.ByteString: "write strings with escapes as parameters",
    exp.UnicodeString: "write strings with escapes as parameters",
    exp.Introducer: "character sets are not available",
}
_CANONICAL: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<string>'[^'\\]*')
  | (?P<name>"(?:[^"]|"")+" | `(?:[^`]|``)+`)
  | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)?)
  | (?P<bits>[xXbB]'[0-9A-Fa-f]*')
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator>
        <=> | ->> | -> | \#>> | \#> | @> | <@ | <= | >= | <> | != | \|\| | :: | && | << | >> | =>
      | !~\* | !~ | ~\* | ~ | // | \*\* | -(?!-) | /(?!\*) | [+*%<>=(),.\[\]{}:|&^?]
    )
    """,
    re.VERBOSE,
)


class SqlTree:
    """One SELECT of a caller.

    Args:
        sql: its text, with parameters as :name.
        engine: the SQL dialect.

    Raises:
        ValueError: it is too long, cannot be parsed, or is not one SELECT; for its author.
    """

    def __init__(self, sql: str, engine: EngineName) -> None:
        if len(sql) > MAX_CHARACTERS:
            raise ValueError(f"has more than {MAX_CHARACTERS} characters")
        if "\0" in sql:
            raise ValueError("holds a NUL character")
        self._engine: EngineName = engine
        self._dialect = Dialect.get_or_raise(_DIALECTS[engine])
        self._used: list[str] = []
        try:
            tokens = self._tokens(sql)
            parser = self._dialect.parser(error_level=ErrorLevel.RAISE)
            trees = [tree for tree in parser.parse(tokens, sql) if tree is not None]
        except SqlglotError as error:
            raise ValueError(_parse_problem(error)) from None
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        if len(trees) != 1:
            raise ValueError("holds more than one statement; write one")
        if not isinstance(trees[0], exp.Query | exp.Values):
            # TRY004: the type is that of a statement, not of an argument.
            raise ValueError("is not a SELECT; write select, with or values")  # noqa: TRY004
        self._tree: exp.Expr = trees[0]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters, each once, in order."""
        return tuple(dict.fromkeys(self._used))

    def confined(
        self,
        tables: Mapping[str, Sequence[str]],
        values: Mapping[str, object],
        *,
        schema: str | None = None,
    ) -> Statement:
        """Return canonical SQL with the engine's placeholders, and their values in order.

        Args:
            tables: the columns of each visible table, by the name that callers write.
            values: the value of each parameter.
            schema: the schema of the tables, which callers do not write.

        Raises:
            RefusedStatement: it names anything else, or has what no statement may have.
        """
        try:
            confined = _Confined(self._tree, self._engine, tables, schema)
            literals = confined.literals(len(self._used))
            generator = self._dialect.generator(
                identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
            )
            text = generator.generate(confined.tree, copy=False)
        except SqlglotError:
            raise RefusedStatement("sql: has syntax that this database lacks") from None
        except RecursionError:
            raise RefusedStatement("sql: is nested too deeply") from None
        return self._placed(text, [*(values[name] for name in self._used), *literals])

    def _placed(self, text: str, values: Sequence[object]) -> Statement:
        """Return canonical SQL with placeholders; every bare word in it is checked."""
        numbered = self._engine in ("postgresql", "duckdb")
        names = [*self._used, *range(len(self._used), len(values))]
        vocabulary = VOCABULARY[self._engine]
        pieces: list[str] = []
        order: list[str | int] = []
        bound: list[object] = []
        place = 0
        while place < len(text):
            match = _CANONICAL.match(text, place)
            if match is None:
                raise RefusedStatement(f"sql: {text[place]!r} is not available here")
            piece, place = match[0], match.end()
            if match.lastgroup == "word" and piece.lower() not in vocabulary:
                if text[place : place + 1] == "(":
                    raise RefusedStatement(f"no such function: {piece.lower()}")
                raise RefusedStatement(f"sql: {piece} is not available here")
            if match.lastgroup == "name" and piece[1] == _OURS:
                name = names[int(piece[2:-1])]
                if not (numbered and name in order):
                    order.append(name)
                    bound.append(values[int(piece[2:-1])])
                piece = f"${order.index(name) + 1}" if numbered else "%s"
            elif not numbered:
                piece = piece.replace("%", "%%")
            pieces.append(piece)
        return Statement("".join(pieces), tuple(bound))

    def _tokens(self, sql: str) -> list[Token]:
        """Return the tokens, with a name of ours in the place of each parameter."""
        tokens = self._dialect.tokenize(sql)
        opened = next((t for t in tokens if t.token_type != TokenType.L_PAREN), None)
        if opened is None:
            raise ValueError("is empty")
        if opened.token_type not in _FIRST:
            raise ValueError("is not a SELECT; begin with select, with or values")
        found: list[Token] = []
        place = 0
        while place < len(tokens):
            token = tokens[place]
            if token.token_type == TokenType.IDENTIFIER and token.text.startswith(_OURS):
                raise ValueError(f"has a name that begins with {_OURS}")
            following = tokens[place + 1] if place + 1 < len(tokens) else None
            if following is not None and _is_parameter(sql, token, following):
                token = Token(
                    TokenType.IDENTIFIER,
                    f"{_OURS}{len(self._used)}",
                    line=token.line,
                    col=token.col,
                    start=token.start,
                    end=following.end,
                )
                self._used.append(following.text)
                place += 1
            found.append(token)
            place += 1
        return found


class _Confined:
    """One tree whose tables and qualified columns are resolved."""

    def __init__(
        self,
        tree: exp.Expr,
        engine: EngineName,
        tables: Mapping[str, Sequence[str]],
        schema: str | None,
    ) -> None:
        self._engine: EngineName = engine
        self._tables = {self._folded(name): name for name in tables}
        self._columns = tables
        self._schema = schema
        self.tree: exp.Expr = tree.copy()
        if engine != "duckdb":  # it compares quoted names without case, too
            self.tree = normalize_identifiers(self.tree, dialect=_DIALECTS[engine])
        self._refuse_nodes()
        self._outputs: dict[int, frozenset[str]] = {}
        found = [
            (table, _definition(table, self._folded)) for table in self.tree.find_all(exp.Table)
        ]
        self._definitions = {id(table): cte for table, cte in found if cte is not None}
        if engine != "duckdb":
            self._check_columns()
        self._rename(found)

    def literals(self, used: int) -> list[object]:
        """Put names of ours in the place of strings that need escapes; return the strings."""
        found: list[object] = []
        for node in list(self.tree.find_all(exp.Literal, exp.RawString)):
            text = node.this
            if isinstance(node, exp.RawString) or (
                node.is_string and not _PLAIN_TEXT.fullmatch(text)
            ):
                name = exp.to_identifier(f"{_OURS}{used + len(found)}", quoted=True)
                node.replace(exp.Column(this=name))
                found.append(text)
        return found

    def _folded(self, name: str) -> str:
        return name.casefold() if self._engine == "duckdb" else name

    def _refuse_nodes(self) -> None:
        for node in self.tree.walk():
            for kind, problem in _REFUSED_NODES.items():
                if isinstance(node, kind):
                    raise RefusedStatement(f"sql: {problem}")
            if isinstance(node, exp.DataType) and node.this == exp.DType.USERDEFINED:
                raise RefusedStatement(f"sql: {node.sql()} is no type that is available here")
            if self._engine == "duckdb" and isinstance(node, exp.Table | exp.Lateral):
                self._refuse_source(node)
            if isinstance(node, exp.Anonymous) and isinstance(node.this, exp.Identifier):
                raise RefusedStatement(f"no such function: {node.this.name}")
            if self._engine != "duckdb" and isinstance(node, exp.Dot):
                raise RefusedStatement(
                    "sql: write columns as table.column, and nothing else with dots"
                )

    def _refuse_source(self, source: exp.Table | exp.Lateral) -> None:
        """Refuse a function in FROM that may read more than its arguments."""
        function = source.this
        if not isinstance(function, exp.Func):
            return
        is_unknown = isinstance(function, exp.Anonymous)
        name = str(function.name if is_unknown else function.sql_name()).lower()
        if name not in _DUCKDB_SOURCES or source.args.get("db"):
            raise RefusedStatement(f"no such function: {name}")

    def _rename(self, tables: Sequence[tuple[exp.Table, exp.CTE | None]]) -> None:
        """Name every table by what it was resolved to, so that no other reading finds anything."""
        definitions = list(self.tree.find_all(exp.CTE))
        names = {id(cte): f"with_{place}" for place, cte in enumerate(definitions)}
        for table, cte in tables:
            if not isinstance(table.this, exp.Identifier):
                continue  # a function
            name = table.name
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
            if cte is not None:
                table.set("this", exp.to_identifier(names[id(cte)], quoted=True))
                continue
            table.set("this", exp.to_identifier(self._visible(table), quoted=True))
            if self._schema is not None:
                table.set("db", exp.to_identifier(self._schema, quoted=True))
        for cte in definitions:
            cte.args["alias"].set("this", exp.to_identifier(names[id(cte)], quoted=True))

    def _visible(self, table: exp.Table) -> str:
        """Return the name of a visible table."""
        name = self._tables.get(self._folded(table.name))
        if name is None or table.db or table.catalog:
            written = ".".join(part.name for part in table.parts)
            raise RefusedStatement(f"no such table: {written}", table=written)
        return name

    # -- qualified columns

    def _check_columns(self) -> None:
        """Refuse `x.f` unless `x` has a column `f`: PostgreSQL would call the function `f`."""
        for column in self.tree.find_all(exp.Column):
            if not column.table:
                continue
            if column.db or column.catalog:
                raise RefusedStatement(f"sql: write {column.table}.{column.name}, without a schema")
            source = self._source(column)
            if source is None:
                raise RefusedStatement(f"no such table: {column.table}", table=column.table)
            if isinstance(column.this, exp.Star):
                continue
            if self._case(column.name) not in self._outputs_of(source):
                written = f"{column.table}.{column.name}"
                raise RefusedStatement(f"no such column: {written}", column=column.name)

    def _case(self, name: str) -> str:
        return name if self._engine == "postgresql" else name.casefold()

    def _source(self, column: exp.Column) -> exp.Expr | None:
        """Return what the table of a column names, in the nearest SELECT around it."""
        node = column.parent
        while node is not None:
            if isinstance(node, exp.Select):
                for alias, source in _sources(node):
                    if alias == column.table:
                        return source
            node = node.parent
        return None

    def _outputs_of(self, source: exp.Expr) -> frozenset[str]:
        """Return the columns of a table, a subquery, a definition or a function."""
        if id(source) not in self._outputs:
            self._outputs[id(source)] = frozenset()  # of what a recursive query reads of itself
            found = frozenset(self._case(name) for name in self._columns_of(source))
            self._outputs[id(source)] = found
        return self._outputs[id(source)]

    def _columns_of(self, source: exp.Expr) -> Iterator[str]:
        alias = source.args.get("alias")
        if isinstance(alias, exp.TableAlias):
            yield from [column.name for column in alias.columns]
        match source:
            case exp.Table() if isinstance(source.this, exp.Identifier):
                cte = self._definitions.get(id(source))
                known = self._columns.get(self._visible(source)) if cte is None else None
                yield from self._outputs_of(cte) if cte is not None else known or ()
            case exp.SetOperation():
                yield from self._outputs_of(source.this)
            case exp.Select():
                for selected in source.expressions:
                    yield from self._selected(source, selected)
            case exp.CTE() | exp.Subquery() | exp.Lateral() if isinstance(source.this, exp.Query):
                yield from self._outputs_of(source.this)
            case exp.Subquery():  # of a join
                for _, inner in _below(source.this):
                    yield from self._outputs_of(inner)
            case exp.Values():
                yield from [f"column{place + 1}" for place in range(len(source.expressions))]
            case _:
                yield from _FUNCTION_COLUMNS

    def _selected(self, select: exp.Select, selected: exp.Expr) -> Iterator[str]:
        if selected.is_star:
            table = selected.table if isinstance(selected, exp.Column) else None
            for alias, source in _sources(select):
                if table is None or table == alias:
                    yield from self._outputs_of(source)
            return
        name = selected.output_name
        while not name and isinstance(selected, exp.Cast | exp.Paren):
            selected = selected.this
            name = selected.output_name
        if name:
            yield name
        elif isinstance(selected, exp.Case):
            yield "case"
        elif isinstance(selected, exp.Func):
            yield (
                selected.name if isinstance(selected, exp.Anonymous) else selected.sql_name()
            ).lower()


def _sources(select: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    """Yield what a SELECT reads, each with its alias."""
    clauses = [
        select.args.get("from_"),
        *select.args.get("joins", ()),
        *select.args.get("laterals", ()),
    ]
    for clause in clauses:
        if clause is not None:
            yield from _below(clause.this if isinstance(clause, exp.From | exp.Join) else clause)


def _below(source: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    if source.alias_or_name:
        yield source.alias_or_name, source
    elif isinstance(source, exp.Subquery | exp.Paren) and not isinstance(source.this, exp.Query):
        yield from _below(source.this)
    for join in source.args.get("joins") or ():
        yield from _below(join.this)


def _definition(table: exp.Table, folded: Callable[[str], str]) -> exp.CTE | None:
    """Return the common table expression that a table names, if any."""
    if not isinstance(table.this, exp.Identifier) or table.db:
        return None
    name = folded(table.name)
    child: exp.Expr = table
    node = table.parent
    while node is not None:
        known: list[exp.CTE] = []
        if isinstance(node, exp.With):
            known = node.expressions
            if not node.recursive:
                known = known[: next(i for i, each in enumerate(known) if each is child)]
        elif (clause := node.args.get("with_")) is not None and clause is not child:
            known = clause.expressions
        for cte in known:
            if folded(cte.alias) == name:
                return cte
        child, node = node, node.parent
    return None


def _is_parameter(sql: str, colon: Token, name: Token) -> bool:
    """Return whether two tokens are a parameter, `:name`."""
    before = sql[colon.start - 1 : colon.start]
    return (
        colon.token_type == TokenType.COLON
        and before != ":"
        and name.start == colon.end + 1
        and _NAME.fullmatch(name.text) is not None
        and sql[name.start] == name.text[0]
    )


def _parse_problem(error: SqlglotError) -> str:
    """Return where a statement cannot be parsed, in one line."""
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        near = str(first.get("highlight") or "").strip()[:40]
        return f"cannot be parsed at line {first.get('line')}, near '{near}'"
    return "cannot be parsed"
