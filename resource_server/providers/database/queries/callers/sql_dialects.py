"""Dialects of SQL that is written anew, in which functions keep their names and arguments.

The parser knows what many functions are in other dialects, and writes some of them with another
name, order of arguments or format. Here all are plain functions, except those with special
syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.generators.mysql import MySQLGenerator
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.parser import Parser as BaseParser
from sqlglot.parsers.mysql import MySQLParser
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from resource_server.providers.database.engines.contract import EngineName

_STEPS_PER_TOKEN: Final = 5
"""Steps of the parser for each token; hand-written statements take up to 4."""
_MORE_STEPS: Final = 2_000
"""Steps beyond these, of about 4 µs each."""


class NestedTooDeeply(SqlglotError):
    """The parser has tried too many readings of a text."""


class _BoundedParser(BaseParser):
    """A parser with a budget of steps.

    Nested words that may be types or functions, such as `date(date(`, are read twice on every
    level, so time would double with each.
    """

    _steps_left = 0

    def _parse(
        self,
        parse_method: Callable[[BaseParser], exp.Expr | None],
        raw_tokens: list[Token],
        sql: str | None = None,
    ) -> list[exp.Expr | None]:
        self._steps_left = _MORE_STEPS + _STEPS_PER_TOKEN * len(raw_tokens)
        return super()._parse(parse_method, raw_tokens, sql)

    def _advance(self, times: int = 1) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise NestedTooDeeply
        super()._advance(times)


def _some(functions: object, names: str) -> dict[str, Any]:
    known = cast("Mapping[str, Any]", functions)
    return {name: known[name] for name in names.split()}


def _regexp(generator: Any, node: exp.Expr) -> str:
    return str(generator.binary(node, "REGEXP"))


def _power(generator: Any, node: exp.Expr) -> str:
    return str(generator.binary(node, "^"))


def _position(generator: Any, node: exp.StrPosition) -> str:
    return f"POSITION({generator.sql(node, 'substr')} IN {generator.sql(node, 'this')})"


def _not(generator: Any, node: exp.Not) -> str:
    """Return `a NOT IN (b)`, in which NOT binds as it was written, and no `NOT a IN (b)`."""
    negated = node.this
    if not isinstance(negated, _INFIX):
        text = str(generator.sql(negated))
    else:
        first = str(generator.sql(negated, "this"))
        negated.set("this", exp.Var(this=first))  # so that nested ones are not written twice
        text = str(generator.sql(negated))
        operator = text.removeprefix(first).lstrip()
        if operator.startswith("~"):
            return f"{first} !{operator}"
        if operator.startswith("IS "):
            return f"{first} IS NOT {operator.removeprefix('IS ')}"
        if text.startswith(first):
            return f"{first} NOT {operator}"
    text = f"NOT {text}"
    return text if isinstance(node.parent, _AROUND_NOT) else f"({text})"


_INFIX: Final = (
    exp.Between,
    exp.In,
    exp.Is,
    exp.RegexpILike,
    exp.RegexpLike,
    exp.SimilarTo,
)
_AROUND_NOT: Final = (
    exp.Alias,
    exp.Anonymous,
    exp.Connector,
    exp.Filter,
    exp.Having,
    exp.If,
    exp.Join,
    exp.Not,
    exp.Paren,
    exp.Select,
    exp.Where,
)
"""Nodes in which a NOT needs no parentheses."""


def _current_time(_generator: Any, node: exp.CurrentTime) -> str:
    return f"CURRENT_TIME({node.name})" if node.this is not None else "CURRENT_TIME"


def _arrow(_parser: Any, this: exp.Expr, path: exp.Expr) -> exp.Expr:
    return exp.JSONExtract(this=this, expression=path, only_json_types=True)


def _double_arrow(_parser: Any, this: exp.Expr, path: exp.Expr) -> exp.Expr:
    return exp.JSONExtractScalar(this=this, expression=path, only_json_types=True)


class PostgresAsWritten(Postgres):
    """PostgreSQL's dialect."""

    INDEX_OFFSET = 0  # an index is written as it is, without the types that another one takes

    class Parser(_BoundedParser, PostgresParser):
        """The parser."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _some(
            cast("Any", PostgresParser).FUNCTION_PARSERS,
            "CAST EXTRACT JSON_TABLE JSON_VALUE OVERLAY POSITION SUBSTRING TRIM XMLELEMENT"
            " XMLTABLE",
        )
        JSON_OPERATORS: ClassVar[dict[Any, Any]] = {
            **cast("Any", PostgresParser).JSON_OPERATORS,
            TokenType.ARROW: _arrow,
            TokenType.DARROW: _double_arrow,
        }

    class Generator(PostgresGenerator):
        """The generator."""

        MULTI_ARG_DISTINCT = True
        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **cast("Any", PostgresGenerator).TRANSFORMS,
            exp.CurrentTime: _current_time,
            exp.Not: _not,
            exp.Pow: _power,
        }


class MysqlAsWritten(MySQL):
    """The dialect of MariaDB and MySQL."""

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """Return a path or key of JSON as it is written."""
        return path

    class Parser(_BoundedParser, MySQLParser):
        """The parser."""

        FUNCTIONS: ClassVar[dict[str, Any]] = _some(
            cast("Any", MySQLParser).FUNCTIONS, "TIMESTAMPADD TIMESTAMPDIFF"
        )
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _some(
            cast("Any", MySQLParser).FUNCTION_PARSERS,
            "CAST CHAR CONVERT EXTRACT GROUP_CONCAT JSON_TABLE JSON_VALUE MATCH POSITION SUBSTR"
            " SUBSTRING TRIM WEIGHT_STRING",
        )

    class Generator(MySQLGenerator):
        """The generator; MariaDB has an operator where MySQL has a function."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **cast("Any", MySQLGenerator).TRANSFORMS,
            exp.Not: _not,
            exp.RegexpLike: _regexp,
            exp.StrPosition: _position,
        }


DIALECTS: Final[Mapping[EngineName, type[Dialect]]] = {
    "postgresql": PostgresAsWritten,
    "mysql": MysqlAsWritten,
    "mariadb": MysqlAsWritten,
}
