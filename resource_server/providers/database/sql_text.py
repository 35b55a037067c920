"""The words of SQL written by the manifest's author: where its parameters are and where it ends.

Not a parser: it tells strings, quoted names and comments from what is outside them, by the rules of
each engine, so that nothing inside them is taken for a parameter or for the end of a statement.

Sources: PostgreSQL `scan.l`; SQLite `tokenize.c`; MySQL manual 11.1, 11.2, 11.7 and MariaDB's on
comments, with the default `sql_mode`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

EngineName: TypeAlias = Literal["sqlite", "postgresql", "mysql", "mariadb"]
Kind: TypeAlias = Literal["word", "name", "parameter", "space", "open", "close", "end", "other"]

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

# A string that is written on in another line, after comments too, goes on with its backslashes.
_GOES_ON = r"'(?>[ \t\f\v]|--[^\n\r]*)*+[\n\r](?>[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*+'"
_POSTGRESQL = rf"""
    (?P<comment>--[^\n\r]*)
  | (?P<block>/\*)
  | (?P<string>[eE]'(?>[^'\\]|\\.|''|{_GOES_ON})*+' | '(?>[^']|'')*+')
  | (?P<dollar>\$(?:{_NAME_START}[A-Za-z0-9_\u0080-\U0010ffff]*)?\$).*?(?P=dollar)
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
_MYSQL = r"""
    (?P<comment>\#[^\n]* | --(?=[\x00-\x20\x7f]|\Z)[^\n]*)
  | (?P<executed>/\*M?!)
  | (?P<block>/\*)
  | (?P<string>'(?>[^'\\]|\\.|'')*+' | "(?>[^"\\]|\\.|"")*+")
  | (?P<name>`(?>[^`]|``)*+`)
  | (?P<foreign>\?)
  | (?P<unclosed>['"`])
"""
_DIALECTS: dict[EngineName, str] = {
    "postgresql": _POSTGRESQL,
    "sqlite": _SQLITE,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_QUOTES = {'"': '"', "`": "`", "[": "]"}


class Token(NamedTuple):
    """A piece of SQL. A comment is a space; a string is `other`."""

    kind: Kind
    text: str
    """As written; of a parameter its name without the colon."""

    @property
    def identifier(self) -> str | None:
        """The name that a word or quoted name stands for."""
        if self.kind == "word":
            return self.text
        if self.kind != "name":
            return None
        quote = _QUOTES[self.text[0]]
        return self.text[1:-1].replace(quote * 2, quote)


def statement(sql: str, engine: EngineName) -> Sequence[Token]:
    """Return the tokens of one statement, or of one expression, without its end or comments.

    Raises:
        ValueError: it is empty, several, or cannot be put in parentheses; for its author.
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
        raise ValueError("has parentheses that do not match")
    return tokens


def _tokens(sql: str, engine: EngineName) -> Iterator[Token]:
    if "\0" in sql:
        raise ValueError("holds a NUL character")
    expression = _expression(engine)
    place = 0
    while (match := expression.match(sql, place)) is not None:
        kind, text, place = match.lastgroup, match[0], match.end()
        match kind:
            case "comment":
                yield Token("space", " ")
            case "block":
                place = _end_of_block(sql, place, nested=engine == "postgresql")
                yield Token("space", " ")
            case "word" | "name" | "space" | "open" | "close" | "end":
                yield Token(kind, text)
            case "parameter":
                yield Token(kind, text[1:])
            case "foreign":
                raise ValueError(f"has a parameter written {text[:40]}; write it as :name")
            case "unclosed":
                raise ValueError(f"has a {text} that is not closed")
            case "executed":
                raise ValueError("has a comment that is executed, /*! */; write what is in it")
            case _:
                yield Token("other", text)


@cache
def _expression(engine: EngineName) -> re.Pattern[str]:
    return re.compile(f"{_DIALECTS[engine]} | {_COMMON}", re.DOTALL | re.VERBOSE)


def _end_of_block(sql: str, place: int, *, nested: bool) -> int:
    depth = 1
    for edge in _BLOCK_EDGE.finditer(sql, place):
        if edge[0] == "*/":
            depth -= 1
        elif nested:
            depth += 1
        if depth == 0:
            return edge.end()
    raise ValueError("has a comment that is not closed")
