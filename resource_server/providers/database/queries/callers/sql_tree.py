"""The SQL of callers as a syntax tree: resolved, then written anew from the tree.

The text of a caller never reaches a database: not its comments, spellings or odd literals, which a
parser and a database might read in two ways. The SQL that is written instead is canonical. Every
name is quoted, every bare word is in the engine's vocabulary, every table is a visible one or a
common table expression of the statement, and values that need escapes are parameters.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from operator import attrgetter
from typing import ClassVar, Final

from sqlglot import ErrorLevel, exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.generator import Generator
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.tokenizer_core import Token, TokenType

from resource_server.providers.database.engines.contract import (
    EngineName,
    RefusedStatement,
    Statement,
)
from resource_server.providers.database.queries.callers.sql_checks import (
    check_kept,
    check_node,
    check_tokens,
)
from resource_server.providers.database.queries.callers.sql_dialects import (
    DIALECTS,
    NestedTooDeeply,
)
from resource_server.providers.database.queries.callers.sql_searches import Searches
from resource_server.providers.database.queries.callers.sql_sources import Sources
from resource_server.providers.database.queries.callers.sql_vocabulary import (
    CALLED,
    COLLATIONS,
    FUNCTIONS,
    WORDS,
)

_JOINS: Final = (TokenType.JOIN, TokenType.STRAIGHT_JOIN)
_CONDITIONS: Final = (TokenType.ON, TokenType.USING, TokenType.CROSS, TokenType.NATURAL)
_BARE_JOINS: Final = 6
"""Joins without a condition that are always parsed: steps double with each."""
MAX_CHARACTERS: Final = 20_000
"""Maximum characters of a statement: parsing takes about 20 ms per 1,000."""
_OURS: Final = "~"
"""Start of the names that stand for parameters in the tree, each tree with a secret of its own."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_TEXT: Final = re.compile(r"[^\\\x00-\x1f\x7f]*")
"""Strings that every engine reads as they are written; others become parameters."""
_DUAL: Final = "dual"
_WITH: Final = "with_"
"""Start of the names of common table expressions in canonical SQL."""
_MAX_NAME_BYTES: Final = 63
"""PostgreSQL shortens longer names, so that two of a statement would be one."""
_PADDING: Final = frozenset(("lpad", "rpad"))
"""Functions that make text of any length from a number."""
_LENGTH_DIGITS: Final = 4
_FIRST: Final = frozenset(
    (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.TABLE, TokenType.FROM)
)
_CANONICAL: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<string>'[^'\\]*')
  | (?P<name>"(?:[^"]|"")+" | `(?:[^`]|``)+`)
  | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)?)
  | (?P<bits>[xXbB]'[0-9A-Fa-f]*')
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator>
        <=> | ->> | -> | @@ | @\? | \#>> | \#> | \#- | @> | <@ | <= | >= | <> | != | \|\| | :: | :=
      | && | << | >> | => | !~\* | !~ | ~\* | ~ | // | \*\* | \?\| | \?& | -(?!-) | /(?!\*)
      | [+*%<>=(),.\[\]{}:|&^?\#]
    )
    """,
    re.VERBOSE,
)

_VARIABLE: Final = frozenset("#@")
"""Characters of operators that MySQL and MariaDB lack."""


class SqlTree:
    """One SELECT of a caller.

    Args:
        sql: its text, with parameters as :name.
        engine: the SQL dialect.

    Raises:
        ValueError: it is too long, cannot be parsed, or is not one SELECT; for its author.
    """

    _takes_one_spelling: ClassVar[bool] = True
    """Whether tokens that parser and database might read in two ways are refused."""

    def __init__(self, sql: str, engine: EngineName) -> None:
        if len(sql) > MAX_CHARACTERS:
            raise ValueError(f"has more than {MAX_CHARACTERS} characters")
        if "\0" in sql:
            raise ValueError("holds a NUL character")
        self._engine: EngineName = engine
        self._dialect = DIALECTS[engine]()
        self._used: list[str] = []
        self._own = f"{_OURS}{secrets.token_hex(8)}:"
        tokens: list[Token] = []
        try:
            tokens = self._tokens(sql)
            parser = self._dialect.parser(error_level=ErrorLevel.RAISE)
            trees = [tree for tree in parser.parse(tokens, sql) if tree is not None]
        except (NestedTooDeeply, RecursionError):
            raise ValueError(_too_much(tokens)) from None
        except SqlglotError as error:
            raise ValueError(_parse_problem(error)) from None
        except (AttributeError, IndexError, KeyError, TypeError):  # of the parser, on odd text
            raise ValueError("cannot be parsed") from None
        if len(trees) != 1:
            raise ValueError("holds more than one statement; write one")
        if not isinstance(trees[0], exp.Query | exp.Values):
            # TRY004: the type is that of a statement, not of an argument.
            raise ValueError("is not a SELECT; write select, with or values")  # noqa: TRY004
        self._tree: exp.Expr = trees[0]
        self._read = tokens

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
            confined = _Confined(self._tree, self._engine, tables, schema, self._own)
            given = [values[name] for name in self._used]
            literals = confined.literals(len(self._used))
            generator = self._dialect.generator(
                identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
            )
            text = _generated(generator, confined.tree)
            written = self._dialect.tokenize(text)
            check_kept(self._read, self._tree, written, self._engine)
            confined.bound_searches([*given, *literals])
            if self._engine != "postgresql":
                name_columns(confined.tree)
            if rows is not None:
                confined.limit(rows, given)
            text = _generated(generator, confined.tree)
        except SqlglotError:
            raise RefusedStatement("sql: has syntax that this database lacks") from None
        except RecursionError:
            raise RefusedStatement("sql: is nested too deeply") from None
        except ValueError as error:
            raise RefusedStatement(f"sql: {error}") from None
        pieces = _pieces(text)
        _check_pieces(pieces, confined.qualified, self._engine)
        return self._placed(pieces, [*given, *literals])

    def _placed(self, pieces: Sequence[re.Match[str]], values: Sequence[object]) -> Statement:
        """Return canonical SQL with placeholders."""
        numbered = self._engine == "postgresql"
        names = [*self._used, *range(len(self._used), len(values))]
        written: list[str] = []
        order: list[str | int] = []
        bound: list[object] = []
        is_after_sign = False
        for piece in pieces:
            text = piece[0]
            if piece.lastgroup == "name" and text[1:].startswith(self._own):
                number = int(text[1 + len(self._own) : -1])
                name = names[number]
                if not (numbered and name in order):
                    order.append(name)
                    bound.append(values[number])
                text = f"${order.index(name) + 1}" if numbered else "%s"
            elif not numbered:
                text = text.replace("%", "%%")
            is_sign = piece.lastgroup == "operator" and text[0] not in "(),.[]{}:"
            # PostgreSQL reads signs in a row as one operator.
            written += [" ", text] if is_sign and is_after_sign else [text]
            is_after_sign = is_sign
        return Statement("".join(written), tuple(bound))

    def _tokens(self, sql: str) -> list[Token]:
        """Return the tokens, with a name of ours in the place of each parameter."""
        tokens = self._dialect.tokenize(sql)
        if self._takes_one_spelling:
            check_tokens(sql, tokens, self._engine)
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
                    f"{self._own}{len(self._used)}",
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


def _pieces(text: str) -> Sequence[re.Match[str]]:
    """Return the words, names, values, operators and spaces of canonical SQL."""
    found: list[re.Match[str]] = []
    place = 0
    while place < len(text):
        match = _CANONICAL.match(text, place)
        if match is None:
            raise RefusedStatement(f"sql: {text[place]!r} is not available here")
        found.append(match)
        place = match.end()
    return found


def _check_pieces(
    pieces: Sequence[re.Match[str]], qualified: Container[tuple[str, str]], engine: EngineName
) -> None:
    """Refuse words beyond the vocabulary, and names that are called or dotted in another way.

    The tree has no such names. This stands here in case that something else writes them.

    Args:
        pieces: canonical SQL.
        qualified: the names that may have a dot between them.
        engine: the SQL dialect.
    """
    solid = [piece for piece in pieces if piece.lastgroup != "space"]
    texts = ["", *(piece[0] for piece in solid), ""]
    for place, piece in enumerate(solid):
        before, text, after = texts[place : place + 3]
        is_called = after == "("
        match piece.lastgroup:
            case "word" if is_called and text.lower() not in CALLED[engine]:
                raise RefusedStatement(f"no such function: {text.lower()}")
            case "word" if not is_called and text.lower() not in WORDS[engine]:
                raise RefusedStatement(f"sql: {text} is not available here")
            case "name" if is_called and before != "AS" and not text[1:].startswith(_WITH):
                raise RefusedStatement(f"no such function: {text}")
            case "operator" if text == ".":
                if (_unquoted(before), _unquoted(after)) not in qualified:
                    raise RefusedStatement(f"sql: {before}.{after} is not available here")
            case "operator" if engine != "postgresql" and (text == ":=" or _VARIABLE & set(text)):
                raise RefusedStatement(f"sql: {text} is not available here")
            case _:
                pass


def _generated(generator: Generator, tree: exp.Expr) -> str:
    try:
        return generator.generate(tree)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # of an odd tree
        raise RefusedStatement("sql: has syntax that this database lacks") from None


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
        own: str,
    ) -> None:
        self._engine: EngineName = engine
        self._own = own
        self._tables = tables
        self._schema = schema
        self._stored = set[int]()
        self.tree: exp.Expr = normalize_identifiers(tree.copy(), dialect=DIALECTS[engine])
        self._refuse_nodes()
        if engine in ("mysql", "mariadb"):
            self._leave_out_dual()
        found = [(table, definition(table)) for table in self.tree.find_all(exp.Table)]
        self._definitions = {id(table): cte for table, cte in found if cte is not None}
        self._sources = Sources(self.tree, self._columns_of, self._case)
        self._check_columns()
        self._find_stored({id(table) for table, cte in found if cte is None})
        if engine == "postgresql":
            self._sources.make_unique()
        self._rename(found)
        self.qualified = {
            (column.table, column.name) for column in self.tree.find_all(exp.Column)
        } | {(table.db, table.name) for table, _ in found}
        """Names with a dot between them: tables with their schema or their columns."""

    def literals(self, used: int) -> list[object]:
        """Put names of ours in the place of strings that need escapes; return the strings."""
        found: list[object] = []
        for node in list(self.tree.find_all(exp.Literal, exp.RawString)):
            text = node.this
            if isinstance(node, exp.RawString) or (
                node.is_string and not _PLAIN_TEXT.fullmatch(text)
            ):
                name = exp.to_identifier(f"{self._own}{used + len(found)}", quoted=True)
                placed: exp.Expr = exp.Column(this=name)
                if self._engine == "postgresql":  # which cannot tell the type in every place
                    placed = exp.Cast(this=placed, to=exp.DataType(this=exp.DType.TEXT))
                node.replace(placed)
                found.append(text)
        return found

    def bound_searches(self, values: Sequence[object]) -> None:
        """Bound the texts that are searched and looked for; `values` are those of parameters."""

        def value(column: exp.Column) -> object:
            if column.table or not column.name.startswith(self._own):
                return None
            found = values[int(column.name.removeprefix(self._own))]
            return "" if found is None else found

        def is_stored(column: exp.Column) -> bool:
            return id(column) in self._stored

        Searches(self._engine, is_stored, value).bound(self.tree)

    def limit(self, rows: int, values: Sequence[object]) -> None:
        """Limit the statement to `rows`; its own limit must be a number or a parameter."""
        while isinstance(self.tree, exp.Subquery) and not any(
            value for name, value in self.tree.args.items() if name != "this"
        ):
            self.tree = self.tree.this
        given = self.tree.args.get("limit")
        count = given and (given.args.get("expression") or given.args.get("count"))
        wanted: object = rows
        if isinstance(count, exp.Literal) and not count.is_string:
            wanted = int(count.name) if count.name.isdecimal() else None
        elif isinstance(count, exp.Column) and count.name.startswith(self._own):
            wanted = values[int(count.name.removeprefix(self._own))]
        elif count is not None:
            wanted = None
        if not isinstance(wanted, int) or wanted < 0:
            raise RefusedStatement("sql: write LIMIT with a number")
        most = exp.Literal.number(min(wanted, rows))
        self.tree.set("limit", exp.Limit(expression=most))

    def _case(self, name: str) -> str:
        return name if self._engine == "postgresql" else name.casefold()

    def _refuse_nodes(self) -> None:
        for node in self.tree.walk():
            check_node(node)
            match node:
                case exp.Identifier():
                    self._refuse_name(node.name)
                case exp.Anonymous():
                    self._check_call(node)
                case exp.Collate() if not self._is_collation(node.expression):
                    raise RefusedStatement("sql: this collation is not available")
                case exp.DataType(this=exp.DType.USERDEFINED):
                    raise RefusedStatement(f"sql: {node.sql()} is no type that is available here")
                case exp.Dot():
                    raise RefusedStatement(
                        "sql: write columns as table.column, and nothing else with dots"
                    )
                case _:
                    pass

    def _leave_out_dual(self) -> None:
        """Leave out the table `dual`, which MariaDB and MySQL have where there is no other."""
        for source in list(self.tree.find_all(exp.From)):
            table = source.this
            if isinstance(table, exp.Table) and table.sql().lower() == _DUAL not in self._tables:
                source.pop()

    def _check_call(self, node: exp.Anonymous) -> None:
        name = node.name.lower()
        if isinstance(node.this, exp.Identifier) or name not in FUNCTIONS[self._engine]:
            raise RefusedStatement(f"no such function: {node.name}")
        if name in _PADDING:
            _check_padding(node)

    def _is_collation(self, node: exp.Expr) -> bool:
        name = node.name if self._engine == "postgresql" else node.name.lower()
        return name in COLLATIONS[self._engine] and not (
            isinstance(node, exp.Column) and node.table
        )

    def _refuse_name(self, name: str) -> None:
        if name.startswith(_OURS) and not name.startswith(self._own):
            raise RefusedStatement(f"sql: has a name that begins with {_OURS}")
        if self._engine == "postgresql" and len(name.encode()) > _MAX_NAME_BYTES:
            raise RefusedStatement(f"sql: has a name of more than {_MAX_NAME_BYTES} bytes")

    def _rename(self, tables: Sequence[tuple[exp.Table, exp.CTE | None]]) -> None:
        """Name every table by what it was resolved to, so that no other reading finds anything."""
        definitions = list(self.tree.find_all(exp.CTE))
        names = {id(cte): f"{_WITH}{place}" for place, cte in enumerate(definitions)}
        for table, cte in tables:
            if not isinstance(table.this, exp.Identifier):
                continue  # a function
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
        if table.name not in self._tables or table.db or table.catalog:
            if table.name.startswith(self._own):
                raise RefusedStatement("sql: a parameter is a value, and no table")
            written = ".".join(part.name for part in table.parts)
            raise RefusedStatement(f"no such table: {written}", table=written)
        return table.name

    # -- columns

    def _check_columns(self) -> None:
        """Refuse `x.f` unless `x` has a column `f`: PostgreSQL would call the function `f`."""
        for column in self.tree.find_all(exp.Column):
            if not column.table:
                continue
            if column.db or column.catalog:
                raise RefusedStatement(f"sql: write {column.table}.{column.name}, without a schema")
            source = self._sources.of(column)
            if source is None:
                raise RefusedStatement(f"no such table: {column.table}", table=column.table)
            if isinstance(column.this, exp.Star):
                continue
            if not self._sources.has(source, column.name):
                written = f"{column.table}.{column.name}"
                raise RefusedStatement(f"no such column: {written}", column=column.name)

    def _find_stored(self, tables: Container[int]) -> None:
        """Find the columns that are certainly those of visible tables, and no results of queries.

        Args:
            tables: the sources that are no common table expressions, by `id`.
        """
        for column in self.tree.find_all(exp.Column):
            found = self._sources.possible(column)
            if found and all(
                id(source) in tables and isinstance(source.this, exp.Identifier) for source in found
            ):
                self._stored.add(id(column))

    def _columns_of(self, table: exp.Table) -> Sequence[str] | exp.CTE:
        cte = self._definitions.get(id(table))
        return self._tables[self._visible(table)] if cte is None else cte


def _check_padding(call: exp.Anonymous) -> None:
    length = call.expressions[1] if len(call.expressions) > 1 else None
    if not isinstance(length, exp.Literal) or not length.name.isdecimal():
        raise RefusedStatement(f"sql: write the length of {call.name.lower()} as a number")
    if len(length.name) > _LENGTH_DIGITS:
        raise RefusedStatement(f"sql: {call.name.lower()} to a length of more than 4 digits")


def name_columns(tree: exp.Expr) -> None:
    """Name each column whose expression reads a table, and that has no name.

    MariaDB and MySQL name it after the text that they run, with what the policy reads for a table.
    """
    for select in list(tree.find_all(exp.Select)):
        columns: list[exp.Expr] = select.expressions
        for place, column in enumerate(columns, 1):
            if not column.alias and column.find(exp.Table) is not None:
                columns[place - 1] = exp.alias_(column, f"column{place}", quoted=True, copy=False)
        select.set("expressions", columns)


def definition(
    table: exp.Table, folded: Callable[[exp.Identifier], str] = attrgetter("name")
) -> exp.CTE | None:
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


def _too_much(tokens: Sequence[Token]) -> str:
    """Return what the parser has no steps left for."""
    kinds = Counter(token.token_type for token in tokens)
    bare = sum(map(kinds.__getitem__, _JOINS)) - sum(map(kinds.__getitem__, _CONDITIONS))
    if bare > _BARE_JOINS:
        return (
            f"has {bare} joins without a condition, more than can be parsed; write each with ON or "
            "USING, or as CROSS JOIN"
        )
    return "is nested too deeply: write fewer parentheses, calls or arrays inside of each other"


def _parse_problem(error: SqlglotError) -> str:
    """Return where a statement cannot be parsed, in one line."""
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        near = str(first.get("highlight") or "").strip()[:40]
        return f"cannot be parsed at line {first.get('line')}, near '{near}'"
    return "cannot be parsed"
