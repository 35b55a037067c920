"""Kinds of nodes that the syntax tree of a caller's SQL may have, with their parts.

Whatever the parser understands of other statements, dialects and versions is none of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from sqlglot import exp

from resource_server.providers.database.engines.contract import RefusedStatement

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
