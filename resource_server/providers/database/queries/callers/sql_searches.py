"""Bounds for text searches in the SQL of callers, which no server stops halfway.

A search of a long text in another takes time by the product of their lengths, and a statement can
make both of any length. PostgreSQL and MariaDB look for a timeout or a cancellation only between
two calls of a function, so such a statement would occupy the server for hours, even after its
caller has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from resource_server.providers.database.engines.contract import EngineName, RefusedStatement

_SOUGHT_CHARACTERS: Final = 1_000
_SEARCHED_CHARACTERS: Final = 1_000_000
_POSTGRESQL: Final[Mapping[str, tuple[int, int]]] = dict.fromkeys(
    "btrim ltrim replace rtrim split_part string_to_array string_to_table strpos translate".split(),
    (0, 1),
)
_MYSQL: Final[Mapping[str, tuple[int, int]]] = {
    "instr": (0, 1),
    "json_search": (0, 2),
    "locate": (1, 0),
    "replace": (0, 1),
    "substring_index": (0, 1),
}
_SEARCHES: Final[Mapping[EngineName, Mapping[str, tuple[int, int]]]] = {
    "postgresql": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}
"""Places of the text that a function searches and of what it looks for."""
_NO_LONGER: Final = frozenset(
    "coalesce concat concat_ws initcap left lower md5 nullif right substr to_char upper".split()
)
"""Functions with results about the length of their arguments."""


class Searches:
    """Lets every search of text in text look for at most 1,000 characters.

    PostgreSQL, whose texts may have 1 GB, also searches only the first 1,000,000 characters of a
    text that the statement makes. MariaDB and MySQL have `max_allowed_packet`.

    Args:
        engine: the SQL dialect.
        is_stored: returns whether a column is one of a table, and no result of a query.
        value: returns the value of a column that stands for a parameter; None of others.
    """

    def __init__(
        self,
        engine: EngineName,
        is_stored: Callable[[exp.Column], bool],
        value: Callable[[exp.Column], object],
    ) -> None:
        self._engine: EngineName = engine
        self._is_stored = is_stored
        self._value = value

    def bound(self, tree: exp.Expr) -> None:
        """Bound the searches of a statement.

        Raises:
            RefusedStatement: it looks for a longer text, as a constant, or in an unusual way, or
                for the elements of an array or a JSON value that it makes.
        """
        for node in tree.find_all(exp.ArrayContainsAll, exp.ArrayOverlaps):
            if self._is_made(node.this) or self._is_made(node.expression):
                # Each element is compared with each, and nothing stops it.
                raise RefusedStatement("sql: @> and && need a column or a constant on each side")
        found = [pair for node in tree.walk() for pair in _searches(node, self._engine)]
        for searched, sought in found:
            for pattern in _patterns(sought):
                if not self._is_constant(pattern):
                    _cut(pattern, _SOUGHT_CHARACTERS)
            if self._engine == "postgresql" and self._is_made(searched):
                _cut(searched, _SEARCHED_CHARACTERS)

    def _is_constant(self, node: exp.Expr) -> bool:
        while isinstance(node, exp.Paren | exp.Cast):
            node = node.this
        text: object = None
        if isinstance(node, exp.Column):
            text = self._value(node)
        elif isinstance(node, exp.Literal | exp.RawString):
            text = node.this
        if isinstance(text, str) and len(text) > _SOUGHT_CHARACTERS:
            raise RefusedStatement(
                f"sql: a search looks for at most {_SOUGHT_CHARACTERS} characters"
            )
        return text is not None or isinstance(node, exp.Null)

    def _is_made(self, node: exp.Expr) -> bool:
        """Return whether a text may be longer than those that are stored."""
        match node:
            case exp.Literal() | exp.RawString() | exp.Null():
                return False
            case exp.Column():
                return self._value(node) is None and not self._is_stored(node)
            case exp.Paren() | exp.Cast() | exp.Collate() | exp.Trim() | exp.Substring():
                return self._is_made(node.this)
            case exp.Array():
                return any(map(self._is_made, node.expressions))
            case exp.DPipe():
                return self._is_made(node.this) or self._is_made(node.expression)
            case exp.Anonymous() if node.name.lower() in _NO_LONGER:
                return any(map(self._is_made, node.expressions))
            case _:
                return True


def _searches(node: exp.Expr, engine: EngineName) -> Sequence[tuple[exp.Expr, exp.Expr]]:
    """Return what a node searches, each with what it looks for."""
    match node:
        case exp.Like() | exp.ILike():
            return ((node.this, node.expression),)
        case exp.StrPosition():
            return ((node.this, node.args["substr"]),)
        case exp.Trim() if node.expression:
            return ((node.this, node.expression),)
        case exp.Anonymous():
            places = _SEARCHES[engine].get(node.name.lower())
            if places is not None and len(node.expressions) > max(places):
                searched, sought = places
                return ((node.expressions[searched], node.expressions[sought]),)
        case _:
            pass
    return ()


def _patterns(sought: exp.Expr) -> Sequence[exp.Expr]:
    """Return the patterns of LIKE ANY, or else the only one.

    Raises:
        RefusedStatement: nothing tells their lengths.
    """
    if not isinstance(sought, exp.Any | exp.All):
        return (sought,)
    patterns = sought.this.unnest()
    if isinstance(patterns, exp.Array | exp.Tuple):
        return patterns.expressions
    if isinstance(patterns, exp.Cast) and isinstance(patterns.this, exp.Literal):
        return (patterns,)
    raise RefusedStatement("sql: write the patterns of LIKE ANY as array[…]")


def _cut(node: exp.Expr, characters: int) -> None:
    length = exp.Literal.number(characters)
    whole = exp.Anonymous(this="LEFT", expressions=[exp.Null(), length])
    node.replace(whole)
    whole.set("expressions", [node, length])
