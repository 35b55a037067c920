"""Claims of the caller in SQL of the manifest: `where: owner = :claims.sub`.

A condition is kept as text with comparisons in it. Each comparison of a column with a claim becomes
one with a literal of the column's type. A text is equal only if it is the same text, whatever the
collation of the column. A claim that the caller lacks, or that has no value of the type, makes the
whole condition false.

A dialect is an engine's name, or of the generic engine the name of SQLAlchemy's dialect.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

import msgspec

from resource_server.access import WHOLE, claim_name, claim_path
from resource_server.providers.database.addressing.key_types import KeyType
from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.engines.generic.dialects import ExactText, known
from resource_server.providers.database.engines.reflection import Column, ColumnKind, Table
from resource_server.providers.database.queries.sql_tokenizer import SqlToken

PARAMETER: Final = "claims"
NOTHING: Final = "1 = 0"
"""The condition of no row, in every engine."""

_EQUAL: Final = ("=", "in")
_COMPARED: Final = (*_EQUAL, "<", "<=", ">", ">=")
_TURNED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SIGNS: Final = ("=", "<", ">", "!")
_WORDS: Final = frozenset("and or not where on having when any all some null".split())
"""Words that are no columns."""
_BEFORE: Final = frozenset("and or not where on having when".split())
_AFTER: Final = frozenset("and or group order limit union then".split())
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?")
_YEAR: Final = re.compile(r"[0-9]{4}")
_LARGEST: Final = 2**63
_SETTING: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)+", re.ASCII)
_WRITTEN: Final = ("sqlite", "postgresql", "mysql", "mariadb", "duckdb")
"""Dialects in which the literals of all types are known."""
_ELSEWHERE: Final = ("integer", "boolean", "date", "uuid")
"""Kinds of columns whose values have one literal and one equality in other dialects, too."""
_MAX_LENGTH: Final = 8190  # characters whose bytes and one more fit into a VARCHAR
_TAKEN_APART: Final = re.compile(r"(?<=%)(?=\()|(?<=_)(?=\[)")
"""Inside of what SQLAlchemy would take for parameters of its own."""
_TEMPORAL: Final = ("date", "time", "datetime", "uuid")
_NUMBERS: Final = ("integer", "real", "numeric")


class UnusableClaim(ValueError):
    """A claim that has no value which can be compared."""


class Comparison(NamedTuple):
    """A comparison of a column with a claim."""

    column: str
    """The column as the author has written it."""
    path: Sequence[str]
    """The names in it."""
    operator: str
    claim: str
    is_inner: bool
    """Whether it stands in a subquery, so that the column may be another table's."""


class RowCondition(NamedTuple):
    """A condition of the manifest with claims."""

    pieces: Sequence[str | Comparison]

    @property
    def comparisons(self) -> Sequence[Comparison]:
        """The comparisons with claims, in order."""
        return [piece for piece in self.pieces if isinstance(piece, Comparison)]

    @property
    def claims(self) -> frozenset[str]:
        """Names of the claims."""
        return frozenset(each.claim for each in self.comparisons)

    @property
    def without_values(self) -> str:
        """The condition with NULL in the place of claims, for the database to check."""
        return "".join(
            piece if isinstance(piece, str) else f"{piece.column} {_null(piece.operator)}"
            for piece in self.pieces
        )

    def problem(self, table: Table, others: Sequence[Table], dialect: str) -> str | None:
        """Return why a claim cannot be compared with its column, or None.

        `others` are the tables that the condition names.
        """
        for each in self.comparisons:
            try:
                _column(each, table, others, dialect)
            except ValueError as error:
                return str(error)
        return None

    def rendered(
        self, values: Mapping[str, Any], table: Table, others: Sequence[Table], dialect: str
    ) -> str:
        """Return the condition in SQL for a caller with these values of claims."""
        try:
            return "".join(
                piece
                if isinstance(piece, str)
                else _compared(
                    piece, values.get(piece.claim), _column(piece, table, others, dialect), dialect
                )
                for piece in self.pieces
            )
        except ValueError:
            return NOTHING


def row_condition(tokens: Sequence[SqlToken]) -> RowCondition | None:
    """Return the condition of these tokens; None without claims.

    Raises:
        ValueError: a parameter is no claim, or is not compared with a column.
    """
    pieces: list[str | Comparison] = []
    place = 0
    solid = [at for at, token in enumerate(tokens) if token.kind != "space"]
    while (found := _next_claim(tokens, place)) is not None:
        begin, end, names = found
        before = [at for at in solid if at < begin]
        after = [at for at in solid if at >= end]
        around = _left_of(tokens, before, after) or _right_of(tokens, before, after)
        if around is None or around.column[0] < place:
            raise _misplaced(names)
        first = min(begin, around.column[0])
        pieces.append("".join([token.text for token in tokens[place:first]]))
        pieces.append(
            Comparison(
                "".join([tokens[at].text for at in around.column]),
                tuple([tokens[at].identifier or "" for at in around.column[::2]]),
                around.operator,
                claim_name(names),
                _is_inner(tokens[:first]),
            )
        )
        place = max(end, around.end)
    if not pieces:
        return None
    return RowCondition([*pieces, "".join([token.text for token in tokens[place:]])])


def names_in(tokens: Sequence[SqlToken]) -> Iterator[str]:
    """Yield the identifiers of tokens that are not names of claims."""
    skipped: set[int] = set()
    place = 0
    while (found := _next_claim(tokens, place)) is not None:
        skipped.update(range(found[0], found[1]))
        place = found[1]
    for at, token in enumerate(tokens):
        if at not in skipped and token.identifier is not None:
            yield token.identifier


def claims_joined(
    tokens: Sequence[SqlToken], taken: Collection[str], dialect: str
) -> tuple[Sequence[SqlToken], Mapping[str, str]]:
    """Return the tokens of a query with a parameter for each claim, and the claims by parameter.

    The names of parameters are none of those `taken`. No collation makes other texts equal.

    Raises:
        ValueError: a claim has no name, or it is not known how the dialect compares texts.
    """
    joined: list[SqlToken] = []
    claims: dict[str, str] = {}
    place = 0
    exact = known(dialect).exact
    while (found := _next_claim(tokens, place)) is not None:
        begin, end, names = found
        name = claim_name(names)
        if exact is None:
            raise ValueError(
                f"has :{PARAMETER}.{name}, and {_unknown_texts(dialect)}: write the condition as "
                "`where` of a table, with a column of integers, dates, booleans or UUIDs"
            )
        same = [each for each, claim in claims.items() if claim == name]
        parameter = same[0] if same else f"claim_{len(claims)}"
        while parameter in taken:
            parameter += "_"
        claims[parameter] = name
        joined += tokens[place:begin]
        before, after = [[SqlToken("other", each)] * bool(each) for each in exact.parameter]
        joined += [*before, SqlToken("parameter", parameter), *after]
        place = end
    return [*joined, *tokens[place:]], claims


def _next_claim(tokens: Sequence[SqlToken], place: int) -> tuple[int, int, tuple[str, ...]] | None:
    """Return where the next claim begins and ends, and the parts of its name."""
    for begin in range(place, len(tokens)):
        if tokens[begin].kind != "parameter" or tokens[begin].text != PARAMETER:
            continue
        names: list[str] = []
        end = begin + 1
        while end + 1 < len(tokens) and tokens[end].text == ".":
            name = tokens[end + 1].identifier
            if name is None:
                break
            names.append(name)
            end += 2
        if not names:
            raise ValueError("has :claims without the name of a claim; write :claims.sub")
        return begin, end, tuple(names)
    return None


class _Around(NamedTuple):
    """The other side of a comparison with a claim."""

    column: list[int]
    """Places of its names, and of the dots between them."""
    operator: str
    end: int
    """End of the comparison without the claim."""


def _left_of(tokens: Sequence[SqlToken], before: list[int], after: list[int]) -> _Around | None:
    """Return the column and the operator before a claim."""
    end = 0
    if len(before) > 1 and tokens[before[-1]].kind == "open" and _is_in(tokens, before[-2]):
        if not after or tokens[after[0]].kind != "close":
            return None
        before, end, after = before[:-1], after[0] + 1, after[1:]
    count = 0
    if before and _is_in(tokens, before[-1]):
        count, operator = 1, "in"
    else:
        while count < len(before) and tokens[before[-1 - count]].text in _SIGNS:
            count += 1
        operator = "".join([tokens[at].text for at in before[len(before) - count :]])
    rest = before[: len(before) - count]
    column = _path([*reversed(rest)], tokens)[::-1]
    outside = rest[: len(rest) - len(column)]
    if operator in _COMPARED and column and _may_begin(tokens, outside) and _may_end(tokens, after):
        return _Around(column, operator, end)
    return None


def _right_of(tokens: Sequence[SqlToken], before: list[int], after: list[int]) -> _Around | None:
    """Return the operator and the column after a claim."""
    count = 0
    while count < len(after) and tokens[after[count]].text in _SIGNS:
        count += 1
    operator = "".join([tokens[at].text for at in after[:count]])
    column = _path(after[count:], tokens)
    rest = after[count + len(column) :]
    if operator in _TURNED and column and _may_begin(tokens, before) and _may_end(tokens, rest):
        return _Around(column, _TURNED[operator], column[-1] + 1)
    return None


def _is_in(tokens: Sequence[SqlToken], place: int) -> bool:
    return tokens[place].kind == "word" and tokens[place].text.lower() == "in"


def _path(places: Sequence[int], tokens: Sequence[SqlToken]) -> list[int]:
    """Return the places of a name and those around it with dots between, in either direction."""
    found: list[int] = []
    for at in places:
        is_name = tokens[at].identifier is not None
        if is_name if len(found) % 2 == 0 else tokens[at].text == ".":
            found.append(at)
        else:
            break
    if len(found) % 2 == 0 and found:
        found.pop()
    if (
        len(found) == 1
        and tokens[found[0]].kind == "word"
        and tokens[found[0]].text.lower() in _WORDS
    ):
        return []
    return found


def _may_begin(tokens: Sequence[SqlToken], before: list[int]) -> bool:
    if not before:
        return True
    last = tokens[before[-1]]
    return last.kind == "open" or (last.kind == "word" and last.text.lower() in _BEFORE)


def _may_end(tokens: Sequence[SqlToken], after: list[int]) -> bool:
    if not after:
        return True
    first = tokens[after[0]]
    return first.kind == "close" or (first.kind == "word" and first.text.lower() in _AFTER)


def _is_inner(before: Sequence[SqlToken]) -> bool:
    """Return whether a place is in the parentheses of a subquery."""
    selects: list[bool] = []
    for token in before:
        if token.kind == "open":
            selects.append(False)
        elif token.kind == "close":
            selects.pop()
        elif selects and token.text.lower() == "select":
            selects[-1] = True
    return any(selects)


def _misplaced(names: Sequence[str]) -> ValueError:
    name = f":{PARAMETER}.{claim_name(names)}"
    return ValueError(
        f"has {name}, which is not compared with a column; write `owner = {name}`, or `in` for a "
        "list, with the column alone on one side (=, in, <, <=, > or >=)"
    )


def _null(operator: str) -> str:
    return "IN (NULL)" if operator == "in" else f"{operator} NULL"


# -- columns and literals


def _column(comparison: Comparison, table: Table, others: Sequence[Table], dialect: str) -> Column:
    """Return the column of a comparison.

    Raises:
        ValueError: it is unknown or ambiguous, or cannot be compared with a claim.
    """
    own = [table] if not comparison.is_inner else [*others, table]
    name = comparison.path[-1].casefold()
    if len(comparison.path) > 1:
        written = comparison.path[-2].casefold()
        own = [each for each in own if each.name.name.casefold() == written] or own
    found = [each for of in own for each in of.columns if each.name.casefold() == name]
    exact = [each for each in found if each.name == comparison.path[-1]]
    found = exact or found
    if not found:
        raise ValueError(f"no column '{comparison.path[-1]}' to compare with the claim")
    if len({(each.kind, each.values) for each in found}) > 1:
        raise ValueError(
            f"'{comparison.path[-1]}' is a column of several tables and types; write the name of "
            "its table before it"
        )
    column = found[0]
    _check_kind(column, dialect)
    if comparison.operator not in _EQUAL and _literal_kind(column.kind) == "text":
        raise ValueError(f"'{column.name}' is text, which is compared with a claim by = or in")
    return column


def _check_kind(column: Column, dialect: str) -> None:
    """Refuse a column whose values and claims are not certain to be compared exactly."""
    if _literal_kind(column.kind) is None or column.type.lower().startswith("set("):
        raise ValueError(f"'{column.name}' of type '{column.type}' cannot be compared with a claim")
    if dialect in _WRITTEN or (column.kind in _ELSEWHERE and column.key_type is not None):
        return
    if column.kind != "text":
        why = f"is of type '{column.type}'"
    elif known(dialect).exact is None:
        why = f"is text, and {_unknown_texts(dialect)}"
    else:
        return
    raise ValueError(
        f"'{column.name}' {why}; compare the claim with a column of integers, dates, booleans or "
        "UUIDs"
    )


def _unknown_texts(dialect: str) -> str:
    return f"it is not known how {known(dialect).title or dialect} compares texts"


def _literal_kind(kind: ColumnKind) -> str | None:
    if kind in _NUMBERS or kind in ("any", "boolean", "text"):
        return kind
    return "temporal" if kind in _TEMPORAL else None


def _compared(comparison: Comparison, value: object, column: Column, dialect: str) -> str:
    """Return a comparison in SQL.

    Raises:
        UnusableClaim: the claim has no value of the column's type.
    """
    values = [value]
    if isinstance(value, list):
        if comparison.operator != "in":
            raise UnusableClaim
        values = cast("list[object]", value)
    if not values:
        return NOTHING
    if dialect in ("mysql", "mariadb") and column.type.lower().startswith("year"):
        # It takes a number of fewer digits for a year of this century.
        values = [each if _YEAR.fullmatch(str(each)) else None for each in values]
    literals = [_literal(each, column, dialect) for each in values]
    operator = "=" if comparison.operator == "in" else comparison.operator
    written = comparison.column
    found: list[str] = []
    numbers = [each.sql for each in literals if not each.is_text]
    texts = [each for each in literals if each.is_text]
    if numbers:
        found.append(_any(written, operator, numbers))
    if texts:
        found.append(_same_text(written, texts, column, dialect))
    return f"({' OR '.join(found)})"


def _any(column: str, operator: str, literals: Sequence[str]) -> str:
    if operator == "=" and len(literals) > 1:
        return f"{column} IN ({', '.join(literals)})"
    return f"{column} {operator} {literals[0]}"


class _Literal(NamedTuple):
    sql: str
    text: str = ""
    is_text: bool = False
    """Whether it is compared character by character."""


def _same_text(column: str, texts: Sequence[_Literal], of: Column, dialect: str) -> str:
    """Return an equality with texts that no collation, type or padding widens.

    The first comparison is for an index.
    """
    exact = known(dialect).exact
    if exact is None:
        raise UnusableClaim
    has_padding = exact.pads and of.type.startswith(("CHAR", "NCHAR"))
    length = min(max([1, *(len(each.text.encode()) for each in texts)]), _MAX_LENGTH)
    same = exact.column.format(
        column=f"TRIM(TRAILING FROM {column})" if has_padding else column,
        length=length,
        bytes=4 * length + 1,
        charset=exact.charsets.get(of.type.rpartition(" ")[2]) or exact.charsets.get(""),
    )
    found = _any(same, "=", [_compared_text(each, exact) for each in texts])
    is_plain = exact.plain == "any" or all(each.text.isascii() for each in texts)
    if exact.plain == "none" or not is_plain or (of.values and dialect == "postgresql"):
        return found
    return f"({_any(column, '=', [each.sql for each in texts])} AND {found})"


def _compared_text(text: _Literal, exact: ExactText) -> str:
    return exact.text.format(literal=text.sql, hex=text.text.encode().hex())


def _literal(value: object, column: Column, dialect: str) -> _Literal:
    kind = column.kind
    match value:
        case bool() if kind == "boolean" or (kind == "any" and dialect == "sqlite"):
            return _Literal(known(dialect).booleans[value])
        case bool():
            raise UnusableClaim
        case int() if kind in (*_NUMBERS, "any"):
            return _Literal(_integer(value))
        case float() if kind in ("real", "numeric", "any"):
            return _Literal(format(Decimal(repr(value)), "f"))
        case str() if kind == "integer" and _INTEGER.fullmatch(value):
            return _Literal(_integer(int(value)))
        case str() if kind in ("real", "numeric") and _NUMBER.fullmatch(value):
            return _Literal(value)
        case str() if kind in ("text", "any") or (kind in _TEMPORAL and dialect == "sqlite"):
            if column.values and value not in column.values:
                raise UnusableClaim
            return _Literal(_quoted(value, dialect), value, is_text=True)
        case str() if kind in _TEMPORAL and column.key_type is not None:
            literal = _quoted(_canonical(value, column.key_type), dialect)
            is_cast = kind == "date" and dialect not in _WRITTEN
            return _Literal(f"CAST({literal} AS DATE)" if is_cast else literal, value)
        case _:
            raise UnusableClaim


def _integer(value: int) -> str:
    if not -_LARGEST <= value < _LARGEST:
        raise UnusableClaim
    # SQLite reads the smallest integer as a minus before a number that is too large.
    return str(value) if value > -_LARGEST else f"({value + 1} - 1)"


def _canonical(text: str, type: KeyType) -> str:
    """Return a date, time or UUID as the engine reads it."""
    try:
        return str(type.bind(type.parse("", text)))
    except (ValueError, LookupError, ArithmeticError):
        raise UnusableClaim from None


def _quoted(text: str, dialect: str) -> str:
    if dialect in ("mysql", "mariadb"):
        return f"_utf8mb4 x'{text.encode().hex()}'"
    escaped = text.replace("'", "''")
    begin = "'"
    if dialect == "postgresql" and "\\" in text:
        begin, escaped = "E'", escaped.replace("\\", "\\\\")
    pieces = [f"{begin}{piece}'" for piece in _TAKEN_APART.split(escaped)]
    return pieces[0] if len(pieces) == 1 else f"({' || '.join(pieces)})"


# -- settings of PostgreSQL


def claims_of_settings(settings: Mapping[str, str], engine: EngineName) -> Mapping[str, str]:
    """Return the names of the claims that settings have, by setting.

    Raises:
        ValueError: the engine has no settings, or one cannot be used; for the manifest's author.
    """
    if settings and engine != "postgresql":
        raise ValueError("settings: only PostgreSQL has settings for row-level security")
    found: dict[str, str] = {}
    for name, value in settings.items():
        if not _SETTING.fullmatch(name):
            raise ValueError(
                f"settings.{name}: expected a setting of your own, with a dot in its name, such "
                "as app.user"
            )
        first, _, claim = value.partition(".")
        if first != PARAMETER or (value != PARAMETER and not claim):
            raise ValueError(f"settings.{name}: expected claims or claims.NAME, such as claims.sub")
        found[name] = claim_name(claim_path(claim)) if claim else WHOLE
    return found


def setting_text(claim: str, value: Any) -> str:
    """Return a claim as the text of a setting; lists are JSON, and a missing claim is empty."""
    if value is None:
        return "{}" if claim == WHOLE else ""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
