"""Checks of a caller's SQL: the kinds of its nodes, and that parser and database read it alike.

The parser forgives what no database does: missing commas, arguments and parentheses. What it makes
of such a text would be another statement, answered without a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, cast

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from resource_server.providers.database.engines.contract import EngineName, RefusedStatement
from resource_server.providers.database.queries.callers.sql_vocabulary import VOCABULARY

MAX_TOKENS: Final = 4_000
_BITS: Final = frozenset((TokenType.HEX_STRING, TokenType.BIT_STRING))
_NUMBERS: Final = _BITS | {TokenType.NUMBER}
_CLOSING: Final = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.L_BRACE: TokenType.R_BRACE,
}
_BEFORE_ITEM: Final = frozenset(
    (*_CLOSING, TokenType.COMMA, TokenType.SELECT, TokenType.DISTINCT, TokenType.FROM)
)
_AFTER_ITEM: Final = frozenset(
    (*_CLOSING.values(), TokenType.COMMA, TokenType.FROM, TokenType.WHERE, TokenType.SEMICOLON)
)
_SHIFTS: Final = frozenset((TokenType.LT, TokenType.GT))
_NAMES: Final = frozenset((TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING))
_JOINED: Final = ("on", "using", "kind", "side", "method")
_DIGITS: Final = re.compile(r"\d+")
_OPERATORS: Final[Mapping[TokenType, TokenType]] = {
    **{
        kind: kind
        for kind in (
            TokenType.AND,
            TokenType.BETWEEN,
            TokenType.DIV,
            TokenType.EQ,
            TokenType.GT,
            TokenType.GTE,
            TokenType.ILIKE,
            TokenType.IN,
            TokenType.IS,
            TokenType.LIKE,
            TokenType.LT,
            TokenType.LTE,
            TokenType.NEQ,
            TokenType.OR,
            TokenType.RLIKE,
            TokenType.SLASH,
            TokenType.XOR,
        )
    },
    TokenType.ISNULL: TokenType.IS,
    TokenType.NOTNULL: TokenType.IS,
    TokenType.DAMP: TokenType.AND,
    TokenType.DPIPE: TokenType.OR,
}
"""Operators that are written in the same order as they were, each with what stands for it."""
_PREDICATES: Final = frozenset(
    (
        TokenType.BETWEEN,
        TokenType.ILIKE,
        TokenType.IN,
        TokenType.LIKE,
        TokenType.NOT,
        TokenType.RLIKE,
    )
)
_OPERANDS: Final = frozenset(
    (
        *_CLOSING.values(),
        TokenType.DASH,
        TokenType.DOT,
        TokenType.IDENTIFIER,
        TokenType.INTERVAL,
        TokenType.NUMBER,
        TokenType.PLUS,
        TokenType.SLASH,
        TokenType.STAR,
        TokenType.STRING,
        TokenType.VAR,
    )
)
_NOTS: Final = frozenset((TokenType.EXCLAMATION, TokenType.NOT, TokenType.NOTNULL))
_FRAMES: Final = frozenset(("groups", "range", "rows"))
_KINDS_BY_PARTS: Final[Mapping[str, str]] = {
    "this expression": """
        Add And ArrayContainedBy ArrayContainsAll ArrayOverlaps BitwiseAnd BitwiseLeftShift
        BitwiseOr BitwiseRightShift BitwiseXor Collate Dot EQ Escape Extract Filter GT GTE
        IntDiv IntervalSpan JSONBContainsAllTopKeys JSONBContainsAnyTopKeys
        JSONBContainsTopKey JSONBDeleteAtPath JSONBExtract JSONBExtractScalar
        JSONBPathExists Kwarg LT LTE Mod Mul NEQ NullSafeEQ NullSafeNEQ Or Overlaps Pow
        PropertyEQ RegexpILike RegexpLike Slice Sub WithinGroup Xor
    """,
    "this": """
        All Any BitString BitwiseNot Boolean CharacterSet CurrentTime CurrentTimestamp
        DataTypeParam Exists From Having HexString IgnoreNulls Localtime Localtimestamp Neg
        Not Paren RawString RespectNulls Var Where
    """,
    "this expressions": "Anonymous Bracket Lambda",
    "expressions": "Array Cube GroupingSets Rollup Tuple",
    "": "CurrentDate Null Star",
    "this distinct expression order limit offset with_": "Except Intersect",
    "this expression negate": "ILike Is Like SimilarTo",
    "this expression only_json_types": "JSONExtract JSONExtractScalar",
    "this expression unit": "TimestampAdd TimestampDiff",
    "this alias": "Alias",
    "this zone": "AtTimeZone",
    "this low high symmetric negate": "Between",
    "this alias materialized": "CTE",
    "ifs default this": "Case",
    "this to": "Cast",
    "expressions charset": "Chr",
    "this table db catalog": "Column",
    "this kind": "ColumnDef",
    "expressions coalesce safe": "Concat",
    "this expression safe": "DPipe",
    "this expressions nested kind values": "DataType",
    "expressions on": "Distinct",
    "this expression typed safe": "Div",
    "direction count limit_options": "Fetch",
    "expressions rollup all cube grouping_sets": "Group",
    "this separator": "GroupConcat",
    "this quoted": "Identifier",
    "this true false": "If",
    "this expressions query negate": "In",
    "this unit": "Interval",
    "this path": "JSONValue",
    "this on side kind method using": "Join",
    "this alias ordinality": "Lateral",
    "expression this limit_options": "Limit",
    "rows with_ties percent": "LimitOptions",
    "this is_string": "Literal",
    "this expressions modifier": "MatchAgainst",
    "expression": "Offset",
    "expressions this": "Order",
    "this desc nulls_first": "Ordered",
    "this expression from_ for_": "Overlay",
    "expressions from_ order limit offset distinct group having joins where with_ windows": """
        Select
    """,
    "this substr": "StrPosition",
    "this alias order limit with_ offset joins": "Subquery",
    "this start length": "Substring",
    "this alias db joins only ordinality": "Table",
    "this columns": "TableAlias",
    "this position expression": "Trim",
    "this to safe": "TryCast",
    "this expression distinct limit order with_ offset": "Union",
    "expressions alias offset": "Unnest",
    "expressions alias": "Values",
    "this order over partition_by spec alias": "Window",
    "kind start start_side end end_side exclude": "WindowSpec",
    "expressions recursive": "With",
}
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(parts.split())
    for parts, kinds in _KINDS_BY_PARTS.items()
    for kind in kinds.split()
}
"""The parts that a node may have, by its kind."""
_NAMED: Final[Mapping[str, str]] = {
    "Placeholder": "write parameters as :name",
    "Parameter": "variables are not available",
    "SessionParameter": "variables are not available",
    "Hint": "hints are not available",
    "Lock": "locks are not available",
    "Into": "INTO is not available",
    "TableSample": "TABLESAMPLE is not available",
    "ByteString": "write strings with escapes as parameters",
    "UnicodeString": "write strings with escapes as parameters",
    "Introducer": "character sets are not available",
}


def check_tokens(sql: str, tokens: Sequence[Token], engine: EngineName) -> None:
    """Refuse a text that the parser would forgive, or read in another way.

    Raises:
        ValueError: it is one; for its author.
    """
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"has more than {MAX_TOKENS} words and signs")
    _check_betweens(tokens)
    opened: list[TokenType] = []
    for place, token in enumerate(tokens):
        _check_number(sql, token)
        if engine in ("mysql", "mariadb") and any(
            comment.lstrip().startswith(("!", "M!")) for comment in token.comments
        ):
            raise ValueError("has a comment that the server would run")
        if token.token_type in _CLOSING:
            opened.append(_CLOSING[token.token_type])
        elif token.token_type in _CLOSING.values() and (
            not opened or opened.pop() != token.token_type
        ):
            raise ValueError(f"has a {token.text} that closes nothing, in line {token.line}")
        if place:
            _check_neighbours(tokens[place - 1], token, engine)
    if opened:
        raise ValueError("has a bracket that is not closed")
    if tokens and tokens[-1].token_type == TokenType.COMMA:
        raise ValueError("ends with a comma")


def _check_betweens(tokens: Sequence[Token]) -> None:
    """Refuse `a BETWEEN b AND c IN d`, and so on, which every database reads in another way."""
    awaits = [0]  # by depth: 1 after BETWEEN, 2 in the operand after its AND
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind in _CLOSING:
            awaits.append(0)
        elif kind in _CLOSING.values():
            del awaits[max(1, len(awaits) - 1) :]
        elif kind in _PREDICATES and awaits[-1] == 2:
            raise ValueError(f"needs parentheses around conditions in a BETWEEN, line {token.line}")
        elif kind == TokenType.BETWEEN and tokens[place - 1].text.lower() not in _FRAMES:
            awaits[-1] = 1
        elif kind == TokenType.AND and awaits[-1] == 1:
            awaits[-1] = 2
        elif kind not in _OPERANDS and awaits[-1] == 2:
            awaits[-1] = 0


def check_kept(
    tokens: Sequence[Token], tree: exp.Expr, canonical: Sequence[Token], engine: EngineName
) -> None:
    """Refuse a text whose names, strings, numbers and operators are not those of canonical SQL.

    Raises:
        ValueError: it is one; for its author.
    """
    joins = sum(any(join.args.get(part) for part in _JOINED) for join in tree.find_all(exp.Join))
    if joins < sum(token.token_type == TokenType.JOIN for token in tokens):
        raise ValueError("has a JOIN without ON or USING; write CROSS JOIN")
    _check_names(tokens, tree, VOCABULARY[engine])
    digits = Counter(_digits(canonical))
    digits.subtract(_digits(token for token in tokens if token.token_type == TokenType.NUMBER))
    if min(digits.values(), default=0) < 0 or _operators(tokens) != _operators(canonical):
        raise ValueError("is ambiguous; write parentheses, and each keyword in its place")


def _check_names(tokens: Sequence[Token], tree: exp.Expr, vocabulary: Container[str]) -> None:
    kept = Counter(
        each.lower() for node in tree.walk() for each in node.args.values() if isinstance(each, str)
    )
    for token in tokens:
        name = token.text.lower()
        if token.token_type not in _NAMES or not name:
            continue
        if not kept[name] and token.token_type == TokenType.STRING:
            name = name.partition(" ")[0]  # of an interval, whose unit stands apart
        if token.token_type != TokenType.VAR or name not in vocabulary:
            kept[name] -= 1
            if kept[name] < 0:
                raise ValueError(f"cannot be parsed near '{token.text[:40]}'")


def _digits(tokens: Iterable[Token]) -> list[str]:
    return [digits for token in tokens for digits in _DIGITS.findall(token.text)]


def _operators(tokens: Sequence[Token]) -> tuple[int, list[TokenType]]:
    """Return the number of NOTs, and the other operators in order without those of frames."""
    found: list[TokenType] = []
    frames = 0
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind == TokenType.BETWEEN and tokens[place - 1].text.lower() in _FRAMES:
            frames += 1
        elif kind == TokenType.AND and frames:
            frames -= 1
        elif kind in _OPERATORS:
            found.append(_OPERATORS[kind])
    return sum(token.token_type in _NOTS for token in tokens), found


def _check_number(sql: str, token: Token) -> None:
    if token.token_type not in _NUMBERS:
        return
    after = sql[token.end + 1 : token.end + 2]
    if after == "_" or after.isalnum():
        raise ValueError(f"has a letter after the number {token.text[:20]}")
    if token.token_type in _BITS and sql[token.start : token.start + 1] == "0":
        raise ValueError(f"has a number that is not decimal: 0…{token.text[:20]}")


def _check_neighbours(before: Token, token: Token, engine: EngineName) -> None:
    first, second = before.token_type, token.token_type
    problem = None
    if second == TokenType.COMMA and first in _BEFORE_ITEM:
        problem = "has nothing before a comma"
    elif first == TokenType.COMMA and second in _AFTER_ITEM:
        problem = "has nothing after a comma"
    elif first == second and first in _SHIFTS and token.start != before.end + 1:
        problem = "has a space inside of an operator"
    elif first == second == TokenType.STRING and engine not in ("mysql", "mariadb"):
        problem = "has two strings without || between"
    if problem is not None:
        raise ValueError(f"{problem}, in line {token.line}")


def check_node(node: exp.Expr) -> None:
    """Check one node, without those below it.

    Raises:
        RefusedStatement: it is none of these kinds, or has another part.
    """
    kind = type(node).__name__
    if kind not in _PARTS:
        problem = _NAMED.get(kind, f"{kind.upper()} is not available here")
        raise RefusedStatement(f"sql: {problem}")
    if isinstance(node, exp.CTE) and not isinstance(node.this, exp.Query | exp.Values):
        raise RefusedStatement(f"sql: {node.alias} is no SELECT")
    if isinstance(node, exp.Between) and isinstance(node.args["high"], exp.Predicate | exp.Not):
        raise RefusedStatement("sql: write parentheses after the AND of BETWEEN")
    for name, value in node.args.items():
        if value and name not in _PARTS[kind]:
            found: object = cast("list[object]", value)[0] if isinstance(value, list) else value
            written = f"{name.strip('_').upper()} of {kind.upper()} is not available here"
            raise RefusedStatement(f"sql: {_NAMED.get(type(found).__name__, written)}")
