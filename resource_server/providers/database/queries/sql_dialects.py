"""Dialects of SQL that is written anew, in which functions keep their names and arguments.

The parser knows what many functions are in other dialects, and writes some of them with another
name, order of arguments or format. All of them are functions alike here, but those with a syntax of
their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.mysql import MySQLGenerator
from sqlglot.parsers.mysql import MySQLParser
from sqlglot.parsers.postgres import PostgresParser

from resource_server.providers.database.engines.contract import EngineName


def _some(functions: object, names: str) -> dict[str, Any]:
    known = cast("Mapping[str, Any]", functions)
    return {name: known[name] for name in names.split()}


def _regexp(generator: Any, node: exp.RegexpLike) -> str:
    return str(generator.binary(node, "REGEXP"))


class PostgresAsWritten(Postgres):
    """PostgreSQL's dialect."""

    class Parser(PostgresParser):
        """The parser."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _some(
            cast("Any", PostgresParser).FUNCTION_PARSERS,
            "CAST EXTRACT JSON_TABLE JSON_VALUE OVERLAY POSITION SUBSTRING TRIM XMLELEMENT"
            " XMLTABLE",
        )


class MysqlAsWritten(MySQL):
    """The dialect of MariaDB and MySQL."""

    class Parser(MySQLParser):
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
            exp.RegexpLike: _regexp,
        }


DIALECTS: Final[Mapping[EngineName, type[Dialect]]] = {
    "postgresql": PostgresAsWritten,
    "mysql": MysqlAsWritten,
    "mariadb": MysqlAsWritten,
    "duckdb": DuckDB,
}
