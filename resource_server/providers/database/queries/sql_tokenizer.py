"""Tokenizer for SQL of the manifest: finds parameters, names and the end of a statement.

Not a parser: it separates strings, quoted names and comments from the rest by the rules of each
engine, so that nothing inside them counts as a parameter or as the end of a statement.

Sources: PostgreSQL `scan.l`; SQLite `tokenize.c`; MySQL manual 11.1, 11.2, 11.7 and MariaDB's on
comments, with the default `sql_mode`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from resource_server.providers.database.engines.contract import EngineName

TokenKind: TypeAlias = Literal[
    "word", "name", "parameter", "space", "open", "close", "end", "other"
]

_NAME_START = r"[A-Za-z_\u0080-\U0010ffff]"
_NAME = r"[A-Za-z0-9_$\u0080-\U0010ffff]"

_COMMON = rf"""
    (?P<word>{_NAME_START}{_NAME}*)
  | (?P<space>\s+)
  | (?P<cast>::|:=)
  | :(?P<parameter>{_NAME_START}[A-Za-z0-9_\u0080-\U0010ffff]*)
  | (?P<open>\() | (?P<close>\)) | (?P<end>;)
  | (?P<other>\d+|.)
"""

# A string continued on another line, even after comments, keeps its backslash rules.
_GOES_ON = r"'(?>[ \t\f\v]|--[^\n\r]*)*+[\n\r](?>[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*+'"
_POSTGRESQL = rf"""
    (?P<comment>--[^\n\r]*)
  | (?P<block>/\*)
  | (?P<string>[eE]'(?>[^'\\]|\\.|''|{_GOES_ON})*+' | '(?>[^']|'')*+')
  | (?P<dollar>\$(?:{_NAME_START}[A-Za-z0-9_\u0080-\U0010ffff]*)?\$).*?(?P=dollar)
  | (?P<escaped>[uU]&")
  | (?P<name>"(?>[^"]|"")*+")
  | (?P<foreign>\$\d+)
  | (?P<unclosed>['"$])
"""
_SQLITE = rf"""
    (?P<comment>--[^\n]*)
  | (?P<block>/\*)
  | (?P<string>'(?>[^']|'')*+')
  | (?P<name>"(?>[^"]|"")*+" | `(?>[^`]|``)*+` | \[[^\]]*+\])
  | (?P<foreign>\?\d* | :\d+ | [@$\#]{_NAME}+)
  | (?P<unclosed>['"`\[])
"""
_MYSQL = rf"""
    (?P<comment>\#[^\n]* | --(?=[\x00-\x20\x7f]|\Z)[^\n]*)
  | (?P<executed>/\*M?!)
  | (?P<block>/\*)
  | (?P<string>'(?>[^'\\]|\\.|'')*+' | "(?>[^"\\]|\\.|"")*+")
  | (?P<name>`(?>[^`]|``)*+`)
  | (?P<foreign>\?)
  | (?P<unclosed>['"`])
  | (?P<ident>(?:(?<=\.)|(?=\d*(?!\d){_NAME})){_NAME}+)
"""
_DUCKDB = rf"""
    (?P<comment>--[^\n\r]*)
  | (?P<block>/\*)
  | (?P<string>[eE]'(?>[^'\\]|\\.|'')*+' | '(?>[^']|'')*+')
  | (?P<dollar>\$(?:{_NAME_START}[A-Za-z0-9_\u0080-\U0010ffff]*)?\$).*?(?P=dollar)
  | (?P<name>"(?>[^"]|"")*+")
  | (?P<foreign>\$\w+ | \?\d*)
  | (?P<unclosed>['"$])
"""
_ANY = rf"""
    (?P<comment>--[^\n\r]*)
  | (?P<executed>/\*M?!)
  | (?P<block>/\*)
  | (?P<prefixed>(?![nNxXbB]'){_NAME_START}{_NAME}*')
  | (?P<string>'(?>[^'\\]|'')*+')
  | (?P<name>"(?>[^"]|"")*+" | `(?>[^`]|``)*+` | \[[^\]'"`;]*+\])
  | (?P<foreign>\?\d* | [@$]{_NAME}+)
  | (?P<ambiguous>'(?>[^']|'')*+' | [\[$\\\#])
  | (?P<unclosed>['"`])
"""
"""What all dialects read alike: no escapes, no comments in comments, no strings of other kinds."""
_DIALECTS: dict[EngineName, str] = {
    "generic": _ANY,
    "postgresql": _POSTGRESQL,
    "sqlite": _SQLITE,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "duckdb": _DUCKDB,
}
_NAME_BYTES = 63
"""Maximum bytes of a PostgreSQL identifier; longer ones are truncated."""
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_REFUSED = {
    "foreign": "has a parameter written {}; write it as :name",
    "escaped": "has a name written {}…; write the name itself",
    "unclosed": "has an unclosed {}",
    "ambiguous": "has {}, which databases read in different ways; write it otherwise",
    "prefixed": "has a string written {}…; write it in plain quotes",
    "executed": "has an executable comment, /*! */; write its content instead",
}
_COMPARISONS = frozenset("= < > ! is in like between not regexp rlike".split())
_QUOTES = {'"': '"', "`": "`", "[": "]"}


class SqlToken(NamedTuple):
    """A piece of SQL. A comment is a space; a string is `other`."""

    kind: TokenKind
    text: str
    """Text as written; for a parameter, its name without the colon."""

    @property
    def identifier(self) -> str | None:
        """The identifier of a word or quoted name."""
        if self.kind == "word":
            return self.text
        if self.kind != "name":
            return None
        quote = _QUOTES[self.text[0]]
        return self.text[1:-1].replace(quote * 2, quote)


class NameReference(NamedTuple):
    """A name in a statement: of a table, column or function, or a keyword."""

    parts: tuple[str, ...]
    """Parts separated by dots, folded as the engine compares them."""
    before: str
    """The word or sign before it, in lower case."""
    doubtful: bool
    """Whether only some engines take it for a table: a function call or a string."""


def references(tokens: Sequence[SqlToken], engine: EngineName) -> Sequence[NameReference]:
    """Return every name in a statement, and everything that could be one, in order."""
    solid = [token for token in tokens if token.kind != "space"]
    found: list[NameReference] = []
    place = 0
    while place < len(solid):
        first = place
        parts: list[str] = []
        while place < len(solid) and (name := _name(solid[place], engine)) is not None:
            parts.append(name)
            place += 1
            if place + 1 >= len(solid) or solid[place].text != ".":
                break
            place += 1
        if not parts:
            place += 1
            continue
        before = solid[first - 1].text.lower() if first else ""
        called = place < len(solid) and solid[place].kind == "open"
        doubtful = called or solid[first].kind == "other"
        found.append(NameReference(tuple(parts), before, doubtful))
    return found


def _name(token: SqlToken, engine: EngineName) -> str | None:
    """Return a possible identifier: some engines accept strings as names."""
    quote = {"sqlite": "'", "duckdb": "'", "postgresql": ""}.get(engine, '"')
    if token.kind == "other" and token.text[0] == quote:
        return token.text[1:-1].replace(quote * 2, quote)
    name = token.identifier
    if name is None or engine != "postgresql":
        return name
    if token.kind == "word":
        name = "".join([c.lower() if c.isascii() else c for c in name])
    return name.encode(errors="replace")[:_NAME_BYTES].decode(errors="ignore")


def computed(ddl: str, engine: EngineName) -> Mapping[str, frozenset[str]]:
    """Return the names, in lower case, in the expression of each generated column of a table.

    Args:
        ddl: the CREATE TABLE statement.
        engine: the SQL dialect.

    Raises:
        ValueError: the statement cannot be tokenized.
    """
    found: dict[str, frozenset[str]] = {}
    column = before = ""
    depth, begins = 0, False
    names: set[str] | None = None
    for token in _tokens(ddl, engine):
        if token.kind == "space":
            continue
        if token.kind == "open":
            depth += 1
            begins = depth == 1
            if depth == 2 and before == "as":
                names = set()
        elif token.kind == "close":
            depth -= 1
            if depth == 1 and names is not None:
                found[column] = frozenset(names)
                names = None
        elif depth == 1 and token.text == ",":
            begins = True
        elif begins:
            column, begins = _name(token, engine) or "", False
        elif names is not None and (name := token.identifier) is not None:
            names.add(name.casefold())
        before = token.text.lower()
    return found


def compared_texts(sql: str, engine: EngineName) -> tuple[str, ...]:
    """Return the texts in double quotes before a comparison: other engines have names there."""
    if engine not in ("mysql", "mariadb"):
        return ()
    solid = [token for token in _tokens(sql, engine) if token.kind != "space"]
    return tuple(
        [
            text.text[1:-1]
            for text, sign in pairwise(solid)
            if text.text[0] == '"' and sign.text.lower() in _COMPARISONS
        ]
    )


def statement(sql: str, engine: EngineName) -> Sequence[SqlToken]:
    """Return the tokens of one statement or expression, without its end and comments.

    Raises:
        ValueError: it is empty, has several statements or unbalanced parentheses; for its author.
    """
    tokens = list(_tokens(sql, engine))
    while tokens and tokens[-1].kind in ("space", "end"):
        tokens.pop()
    while tokens and tokens[0].kind == "space":
        tokens.pop(0)
    if not tokens:
        raise ValueError("is empty")
    depth = 0
    for token in tokens:
        if token.kind == "end":
            raise ValueError("holds more than one statement; write one")
        depth += (token.kind == "open") - (token.kind == "close")
        if depth < 0:
            break
    if depth:
        raise ValueError("has unbalanced parentheses")
    return tokens


def _tokens(sql: str, engine: EngineName) -> Iterator[SqlToken]:
    if "\0" in sql:
        raise ValueError("holds a NUL character")
    expression = _expression(engine)
    place = 0
    while (match := expression.match(sql, place)) is not None:
        kind, text, place = match.lastgroup, match[0], match.end()
        match kind:
            case "comment":
                yield SqlToken("space", " ")
            case "block":
                nests = None if engine == "generic" else engine in ("postgresql", "duckdb")
                place = _end_of_block(sql, place, nested=nests)
                # A space would join two strings of PostgreSQL that the comment keeps apart.
                yield SqlToken("space", "/**/")
            case "ident":
                yield SqlToken("word", text)
            case "word" | "name" | "space" | "open" | "close" | "end":
                yield SqlToken(kind, text)
            case "parameter":
                yield SqlToken(kind, text[1:])
            case "foreign" | "escaped" | "unclosed" | "executed" | "prefixed" | "ambiguous":
                raise ValueError(_REFUSED[kind].format(text[:40]))
            case _:
                yield SqlToken("other", text)


@cache
def _expression(engine: EngineName) -> re.Pattern[str]:
    return re.compile(f"{_DIALECTS[engine]} | {_COMMON}", re.DOTALL | re.VERBOSE)


def _end_of_block(sql: str, place: int, *, nested: bool | None) -> int:
    depth = 1
    for edge in _BLOCK_EDGE.finditer(sql, place):
        if edge[0] == "*/":
            depth -= 1
        elif nested is None:
            raise ValueError("has a comment inside of a comment")
        elif nested:
            depth += 1
        if depth == 0:
            return edge.end()
    raise ValueError("has an unclosed comment")
