"""One SELECT as a syntax tree: resolved, then written anew from the tree.

The tables of a declared query are replaced by their visible parts. The SQL of a caller is confined
as a whole. Its text never reaches a database: not its comments, spellings or odd literals, which a
parser and a database might read in two ways. The SQL that is written instead is canonical. Every
name is quoted, every bare word is in the engine's vocabulary, every table is a visible one or a
common table expression of the statement, and values that need escapes are parameters.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import ErrorLevel, exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.tokenizer_core import Token, TokenType

from resource_server.providers.database.engines.contract import (
    EngineName,
    RefusedStatement,
    Statement,
)
from resource_server.providers.database.queries.sql_dialects import DIALECTS
from resource_server.providers.database.queries.sql_vocabulary import VOCABULARY

MAX_CHARACTERS: Final = 20_000
"""Maximum characters of a statement: parsing takes about 20 ms per 1,000."""
TablePath: TypeAlias = tuple[str, ...]
"""Name of a table as it is written: perhaps a database, perhaps a schema, then the name."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_TEXT: Final = re.compile(r"[^\\\x00-\x1f\x7f]*")
"""Strings that every engine reads as they are written, with quotes twice; others become parameters.
"""
_WITH: Final = "with_"
"""Start of the names of common table expressions in canonical SQL."""
_PADDING: Final = frozenset(("lpad", "rpad"))
"""Functions that make text of any length from a number."""
_LENGTH_DIGITS: Final = 4
_SCALAR: Final = frozenset(
    """
    generate_series json_object_keys jsonb_object_keys regexp_matches regexp_split_to_table
    string_to_table unnest
    """.split()
)
"""Functions in FROM whose only column has the name of their alias."""
_FUNCTION_COLUMNS: Final = frozenset(("key", "value", "ordinality"))
"""Columns of functions in FROM without a list of columns."""
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
_POSTGRESQL_NAME_BYTES: Final = 63
"""Maximum bytes of an identifier; longer ones are truncated."""
_CANONICAL: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<string>'[^'\\]*')
  | (?P<name>"(?:[^"]|"")+" | `(?:[^`]|``)+`)
  | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)?)
  | (?P<bits>[xXbB]'[0-9A-Fa-f]*')
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator>
        <=> | ->> | -> | @@ | \#>> | \#> | @> | <@ | <= | >= | <> | != | \|\| | :: | && | << | >>
      | => | !~\* | !~ | ~\* | ~ | // | \*\* | -(?!-) | /(?!\*) | [+*%<>=(),.\[\]{}:|&^?]
    )
    """,
    re.VERBOSE,
)

_COMMENT_OR_VARIABLE: Final = frozenset("#@")
"""Characters of operators that MySQL and MariaDB lack."""


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
        self._mark = f"~{secrets.token_hex(8)}_"
        """Start of names that stand for something else in the tree; nobody can guess it."""
        self._dialect = DIALECTS[engine]()
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
        rows: int | None = None,
    ) -> Statement:
        """Return canonical SQL with the engine's placeholders, and their values in order.

        Args:
            tables: the columns of each visible table, by the name that callers write.
            values: the value of each parameter.
            schema: the schema of the tables, which callers do not write.
            rows: a limit that the statement gets.

        Raises:
            RefusedStatement: it names anything else, or has what no statement may have.
        """
        try:
            confined = _Confined(self._tree, self._engine, tables, schema, self._mark)
            given = [values[name] for name in self._used]
            if rows is not None:
                confined.limit(rows, given)
            literals = confined.literals(len(self._used))
            generator = self._dialect.generator(
                identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
            )
            text = generator.generate(confined.tree, copy=False)
        except SqlglotError:
            raise RefusedStatement("sql: has syntax that this database lacks") from None
        except RecursionError:
            raise RefusedStatement("sql: is nested too deeply") from None
        if self._engine != "duckdb":  # it has structs
            _check_names(text, confined.qualified)
        return self._placed(text, [*given, *literals])

    def tables(self) -> frozenset[TablePath]:
        """Return the tables that it reads, common table expressions excepted."""
        return frozenset([self._path(table) for table in self._real_tables(self._tree)])

    def definitions(self) -> frozenset[str]:
        """Return the names of its common table expressions."""
        return frozenset(
            [self._folded(cte.args["alias"].this) for cte in self._tree.find_all(exp.CTE)]
        )

    def replaced(self, sources: Mapping[TablePath, str]) -> tuple[str, tuple[str, ...]]:
        """Return SQL that reads other sources, and its parameters in placeholder order.

        Args:
            sources: what is read in the place of tables: subqueries or quoted names.

        Raises:
            ValueError: it uses a table in a way that these sources do not allow; for its author.
        """
        tree = self._tree.copy()
        texts: list[str] = []
        for table in self._real_tables(tree):
            source = sources.get(self._path(table))
            if source is None:
                continue
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            for part in ("db", "catalog", "only"):
                table.set(part, None)
            table.set("this", exp.to_identifier(f"{self._mark}t{len(texts)}", quoted=True))
            texts.append(source)
        try:
            generator = self._dialect.generator(comments=False, unsupported_level=ErrorLevel.RAISE)
            text = generator.generate(tree, copy=False)
        except (SqlglotError, RecursionError):
            raise ValueError("has syntax that this database lacks") from None
        text = re.sub(rf'["`]{self._mark}t(\d+)["`]', lambda found: texts[int(found[1])], text)
        numbered = self._engine in ("postgresql", "duckdb")
        order: list[str] = []

        def placeholder(found: re.Match[str]) -> str:
            name = self._used[int(found[1])]
            if not (numbered and name in order):
                order.append(name)
            return f"${order.index(name) + 1}" if numbered else "%s"

        if not numbered:
            text = text.replace("%", "%%")
        return re.sub(rf'["`]{self._mark}(\d+)["`]', placeholder, text), tuple(order)

    def _real_tables(self, tree: exp.Expr) -> list[exp.Table]:
        return [
            table
            for table in tree.find_all(exp.Table)
            if isinstance(table.this, exp.Identifier) and _definition(table, self._folded) is None
        ]

    def _path(self, table: exp.Table) -> TablePath:
        return tuple(
            [self._folded(part) for part in table.parts if isinstance(part, exp.Identifier)]
        )

    def _folded(self, name: exp.Identifier) -> str:
        """Return a name as the engine compares it."""
        text = name.name
        if self._engine != "postgresql":
            return text.casefold() if self._engine == "duckdb" else text
        if not name.quoted:
            text = "".join([c.lower() if c.isascii() else c for c in text])
        return text.encode(errors="replace")[:_POSTGRESQL_NAME_BYTES].decode(errors="ignore")

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
            if match.lastgroup == "name" and piece.startswith(self._mark, 1):
                number = int(piece[len(self._mark) + 1 : -1])
                name = names[number]
                if not (numbered and name in order):
                    order.append(name)
                    bound.append(values[number])
                piece = f"${order.index(name) + 1}" if numbered else "%s"
            elif not numbered:
                if match.lastgroup == "operator" and not _COMMENT_OR_VARIABLE.isdisjoint(piece):
                    raise RefusedStatement(f"sql: {piece} is not available here")
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
            following = tokens[place + 1] if place + 1 < len(tokens) else None
            if following is not None and _is_parameter(sql, token, following):
                token = Token(
                    TokenType.IDENTIFIER,
                    f"{self._mark}{len(self._used)}",
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


def _check_names(text: str, qualified: Container[tuple[str, str]]) -> None:
    """Refuse names in canonical SQL that are called, or dotted other than `qualified` ones.

    The tree has neither. This stands here in case that something else writes them.

    Raises:
        RefusedStatement: there is one.
    """
    found = [(str(m.lastgroup), m[0]) for m in _CANONICAL.finditer(text) if m.lastgroup != "space"]
    ends = [("", "")] * 2
    for (_, first), (kind, name), (_, sign), (_, last) in zip(
        (ends[:1] + found), found, found[1:] + ends[:1], found[2:] + ends, strict=False
    ):
        if sign == "(" and kind == "name" and first != "AS" and not name[1:].startswith(_WITH):
            raise RefusedStatement(f"no such function: {name}")
        if sign == "." and (_unquoted(name), _unquoted(last)) not in qualified:
            raise RefusedStatement(f"sql: {name}.{last} is not available here")


def _unquoted(name: str) -> str:
    return name[1:-1].replace(name[0] * 2, name[0]) if name[0] in '"`' else name


class _Confined:
    """One tree whose tables and qualified columns are resolved."""

    def __init__(
        self,
        tree: exp.Expr,
        engine: EngineName,
        tables: Mapping[str, Sequence[str]],
        schema: str | None,
        mark: str,
    ) -> None:
        self._engine: EngineName = engine
        self._mark = mark
        self._tables = {self._folded(name): name for name in tables}
        self._columns = tables
        self._schema = schema
        self.tree: exp.Expr = tree.copy()
        if engine != "duckdb":  # it compares quoted names without case, too
            self.tree = normalize_identifiers(self.tree, dialect=DIALECTS[engine])
        self._refuse_nodes()
        self._outputs: dict[int, frozenset[str]] = {}
        self.qualified: set[tuple[str, str]] = set()
        """Names with a dot between them: tables with their schema or their columns."""
        found = [
            (table, _definition(table, self._identifier)) for table in self.tree.find_all(exp.Table)
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
                name = exp.to_identifier(f"{self._mark}{used + len(found)}", quoted=True)
                placed: exp.Expr = exp.Column(this=name)
                if self._engine == "postgresql":  # which cannot tell the type in every place
                    placed = exp.Cast(this=placed, to=exp.DataType(this=exp.DType.TEXT))
                node.replace(placed)
                found.append(text)
        return found

    def limit(self, rows: int, values: Sequence[object]) -> None:
        """Let the statement give at most `rows`; a limit of its own is a number or a parameter."""
        while isinstance(self.tree, exp.Subquery) and not any(
            value for name, value in self.tree.args.items() if name != "this"
        ):
            self.tree = self.tree.this
        given = self.tree.args.get("limit")
        count = given and (given.args.get("expression") or given.args.get("count"))
        wanted: object = rows
        if isinstance(count, exp.Literal) and not count.is_string:
            wanted = int(count.name) if count.name.isdecimal() else None
        elif isinstance(count, exp.Column) and count.name.startswith(self._mark):
            wanted = values[int(count.name.removeprefix(self._mark))]
        elif count is not None:
            wanted = None
        if not isinstance(wanted, int) or wanted < 0:
            raise RefusedStatement("sql: write LIMIT with a number")
        most = exp.Literal.number(min(wanted, rows))
        self.tree.set("limit", exp.Limit(expression=most))

    def _folded(self, name: str) -> str:
        return name.casefold() if self._engine == "duckdb" else name

    def _identifier(self, name: exp.Identifier) -> str:
        return self._folded(name.name)

    def _refuse_nodes(self) -> None:
        for node in self.tree.walk():
            for kind, problem in _REFUSED_NODES.items():
                if isinstance(node, kind):
                    raise RefusedStatement(f"sql: {problem}")
            if isinstance(node, exp.Identifier):
                self._refuse_name(node.name)
            if isinstance(node, exp.Anonymous) and node.name.lower() in _PADDING:
                _check_padding(node)
            if isinstance(node, exp.Table) and node.args.get("rows_from"):
                raise RefusedStatement("sql: ROWS FROM is not available")
            if isinstance(node, exp.DataType) and node.this == exp.DType.USERDEFINED:
                raise RefusedStatement(f"sql: {node.sql()} is no type that is available here")
            if isinstance(node, exp.Anonymous) and isinstance(node.this, exp.Identifier):
                raise RefusedStatement(f"no such function: {node.this.name}")
            if self._engine != "duckdb" and isinstance(node, exp.Dot):
                raise RefusedStatement(
                    "sql: write columns as table.column, and nothing else with dots"
                )

    def _refuse_name(self, name: str) -> None:
        if self._engine == "postgresql" and len(name.encode()) > _POSTGRESQL_NAME_BYTES:
            # Two of a statement would be one.
            raise RefusedStatement(f"sql: has a name of more than {_POSTGRESQL_NAME_BYTES} bytes")

    def _rename(self, tables: Sequence[tuple[exp.Table, exp.CTE | None]]) -> None:
        """Name every table by what it was resolved to, so that no other reading finds anything."""
        definitions = list(self.tree.find_all(exp.CTE))
        names = {id(cte): f"{_WITH}{place}" for place, cte in enumerate(definitions)}
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
                self.qualified.add((self._schema, table.name))
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
        """Refuse `x.f` unless `x` has a column `f`: PostgreSQL would call the function `f`.

        It calls functions of scalar values alone, so every function in FROM that might be `x`, in
        whatever scope, must have the column.
        """
        functions = self._named_functions()
        for column in self.tree.find_all(exp.Column):
            if not column.table:
                continue
            if column.db or column.catalog:
                raise RefusedStatement(f"sql: write {column.table}.{column.name}, without a schema")
            source = self._source(column)
            if source is None:
                raise RefusedStatement(f"no such table: {column.table}", table=column.table)
            self.qualified.add((column.table, column.name))
            if isinstance(column.this, exp.Star):
                continue
            for each in (source, *functions.get(column.table, ())):
                if self._case(column.name) not in self._outputs_of(each):
                    written = f"{column.table}.{column.name}"
                    raise RefusedStatement(f"no such column: {written}", column=column.name)

    def _named_functions(self) -> Mapping[str, Sequence[exp.Expr]]:
        """Return the functions in FROM by their aliases, which they get if they have none."""
        found: dict[str, list[exp.Expr]] = {}
        for source in self.tree.find_all(exp.Table, exp.Lateral, exp.Unnest):
            if not _is_function(source) or isinstance(source.parent, exp.Lateral):
                continue
            if not source.alias:
                name = exp.to_identifier(_called(source) or "function", quoted=True)
                source.set("alias", exp.TableAlias(this=name))
            found.setdefault(source.alias, []).append(source)
        return found

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
                yield from _function_columns(source)

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


def _check_padding(call: exp.Anonymous) -> None:
    length = call.expressions[1] if len(call.expressions) > 1 else None
    if not isinstance(length, exp.Literal) or not length.name.isdecimal():
        raise RefusedStatement(f"sql: write the length of {call.name.lower()} as a number")
    if len(length.name) > _LENGTH_DIGITS:
        raise RefusedStatement(f"sql: {call.name.lower()} to a length of more than 4 digits")


def _is_function(source: exp.Expr) -> bool:
    """Return whether something in FROM is a function, and no table or query."""
    return isinstance(source, exp.Unnest) or not isinstance(
        source.this, exp.Identifier | exp.Query | exp.Values
    )


def _function_columns(source: exp.Expr) -> Iterator[str]:
    yield from _FUNCTION_COLUMNS
    if _called(source) in _SCALAR and not source.alias_column_names:
        yield source.alias
    if isinstance(offset := source.args.get("offset"), exp.Identifier):
        yield offset.name


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


def _definition(table: exp.Table, folded: Callable[[exp.Identifier], str]) -> exp.CTE | None:
    """Return the common table expression that a table names, if any."""
    if not isinstance(table.this, exp.Identifier) or table.db:
        return None
    name = folded(table.this)
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
            if folded(cte.args["alias"].this) == name:
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
