"""Kinds of nodes that the syntax tree of a caller's SQL may have, with their parts.

Whatever the parser understands of other statements, dialects and versions is none of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from sqlglot import exp

from resource_server.providers.database.engines.contract import RefusedStatement

_PARTS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(parts)
    for kind, *parts in map(
        str.split,
        """
Add this expression
Alias this alias
All this
And this expression
Anonymous this expressions
Any this
Array expressions
ArrayContainedBy this expression
ArrayContainsAll this expression
ArrayOverlaps this expression
AtTimeZone this zone
Between this low high symmetric negate
BitString this
BitwiseAnd this expression
BitwiseLeftShift this expression
BitwiseNot this
BitwiseOr this expression
BitwiseRightShift this expression
BitwiseXor this expression
Boolean this
Bracket this expressions
CTE this alias materialized
Case ifs default this
Cast this to
CharacterSet this
Chr expressions charset
Collate this expression
Column this table db catalog
ColumnDef this kind
Concat expressions coalesce safe
Cube expressions
CurrentDate
CurrentTime this
CurrentTimestamp this
DPipe this expression safe
DataType this expressions nested kind values
DataTypeParam this
Distinct expressions on
Div this expression typed safe
Dot this expression
EQ this expression
Escape this expression
Except this distinct expression order limit offset with_
Exists this
Extract this expression
Fetch direction count limit_options
Filter this expression
From this
GT this expression
GTE this expression
Group expressions rollup all cube grouping_sets
GroupConcat this separator
GroupingSets expressions
Having this
HexString this
ILike this expression negate
Identifier this quoted
If this true false
IgnoreNulls this
In this expressions query negate
IntDiv this expression
Intersect this distinct expression order limit offset with_
Interval this unit
IntervalSpan this expression
Is this expression negate
JSONBContainsAllTopKeys this expression
JSONBContainsAnyTopKeys this expression
JSONBContainsTopKey this expression
JSONBDeleteAtPath this expression
JSONBExtract this expression
JSONBExtractScalar this expression
JSONBPathExists this expression
JSONExtract this expression only_json_types
JSONExtractScalar this expression only_json_types
JSONValue this path
Join this on side kind method using
Kwarg this expression
LT this expression
LTE this expression
Lambda this expressions
Lateral this alias ordinality
Like this expression negate
Limit expression this limit_options
LimitOptions rows with_ties percent
Literal this is_string
Localtime this
Localtimestamp this
MatchAgainst this expressions modifier
Mod this expression
Mul this expression
NEQ this expression
Neg this
Not this
Null
NullSafeEQ this expression
NullSafeNEQ this expression
Offset expression
Or this expression
Order expressions this
Ordered this desc nulls_first
Overlaps this expression
Overlay this expression from_ for_
Paren this
Pow this expression
PropertyEQ this expression
RawString this
RegexpILike this expression
RegexpLike this expression
RespectNulls this
Rollup expressions
Select expressions from_ order limit offset distinct group having joins where with_ windows
SimilarTo this expression negate
Slice this expression
Star
StrPosition this substr
Sub this expression
Subquery this alias order limit with_ offset joins
Substring this start length
Table this alias db joins only ordinality
TableAlias this columns
TimestampAdd this expression unit
TimestampDiff this expression unit
Trim this position expression
TryCast this to safe
Tuple expressions
Union this expression distinct limit order with_ offset
Unnest expressions alias offset
Values expressions alias
Var this
Where this
Window this order over partition_by spec alias
WindowSpec kind start start_side end end_side exclude
With expressions recursive
WithinGroup this expression
Xor this expression
        """.strip().splitlines(),
    )
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
