"""Dialects of SQLAlchemy: their packages, and what the generic engine knows about each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from resource_server.providers.database.addressing.key_types import Decimals, Integers, KeyType

Status: TypeAlias = Literal["tested", "untried"]

NULLS_FIRST: Final = (True, False)
"""NULL is the least value: it comes first in ascending order, last in descending order."""
NULLS_LAST: Final = (False, True)
"""NULL is the greatest value."""


class ExactText(NamedTuple):
    """How texts are equal in SQL only if they are the same, whatever collation, type or padding."""

    column: str
    """A `{column}` with a text of at most `{length}` characters or bytes, or another text."""
    text: str = "{literal}"
    """A text that is compared with it: a `{literal}`, or its bytes as `{hex}`."""
    parameter: tuple[str, str] = ("", "")
    """SQL around a parameter of a query that is compared with a column."""
    plain: Literal["any", "ascii", "none"] = "any"
    """Which texts are compared without this first, so that an index serves. `ascii`: letters that
    the character set of a column lacks are refused."""
    charsets: Mapping[str, str] = {}
    """The `{charset}` of a column by that of its type; by "" if it is another."""
    pads: bool = False
    """Whether CHAR has spaces at its end, which are no part of its text."""


class KnownDialect(msgspec.Struct, frozen=True):
    """One dialect; each default is what is assumed of one that is not known."""

    title: str
    drivers: Mapping[str, str]
    """PyPI packages by the driver part of the URL, the recommended one first."""
    status: Status = "untried"
    fails: str = ""
    """Why it does not run, and what does."""
    session: tuple[str, ...] = ()
    """Statements that make a session read-only, and its times UTC."""
    transaction: tuple[str, ...] = ()
    """Statements that begin a read-only transaction; `{ms}` and `{seconds}` are its timeout."""
    is_read_only: bool = False
    """Whether a session or its transactions cannot write."""
    enforces_keys: bool = False
    """Whether no two rows have the same primary or unique key; warehouses only note keys."""
    nulls: tuple[bool, bool] | None = None
    """Whether NULL comes first, ascending and descending; None if it is put in place by SQL."""
    compares_large: bool = False
    """Whether texts and bytes of any length are compared and sorted by their whole value."""
    text_order: Literal["bytes", "letters", "unknown"] = "unknown"
    """Whether texts that differ are never equal in an order; `letters`: a cast to bytes helps."""
    averages_cut: tuple[type[KeyType], ...] = ()
    """The key types whose averages have no more digits than their values."""
    exact: ExactText | None = None
    """How claims of callers are compared with texts; None: not at all."""
    booleans: tuple[str, str] = ("FALSE", "TRUE")


_POSTGRESQL: Final = KnownDialect(
    "PostgreSQL",
    {"psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary", "pg8000": "pg8000"},
    "tested",
    session=("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET TIME ZONE 'UTC'"),
    transaction=("SET LOCAL statement_timeout = {ms}",),
    is_read_only=True,
    enforces_keys=True,
    nulls=NULLS_LAST,
    compares_large=True,
    text_order="letters",
    exact=ExactText('CAST({column} AS text) COLLATE "C"'),
)
_MARIADB: Final = KnownDialect(
    "MariaDB",
    {"pymysql": "pymysql", "mariadbconnector": "mariadb"},
    "tested",
    session=("SET SESSION TRANSACTION READ ONLY", "SET time_zone = '+00:00'"),
    transaction=("SET SESSION max_statement_time = {seconds}",),
    is_read_only=True,
    enforces_keys=True,
    nulls=NULLS_FIRST,
    compares_large=True,
    text_order="letters",
    exact=ExactText(
        "CAST(CONVERT({column} USING utf8mb4) AS BINARY)",
        "x'{hex}'",
        ("CAST(", " AS BINARY)"),
        plain="ascii",
    ),
)

DIALECTS: Final[Mapping[str, KnownDialect]] = {
    "firebird": KnownDialect(
        "Firebird",
        {"firebird": "sqlalchemy-firebird"},
        "tested",
        is_read_only=True,  # by the parameters of its transactions
        enforces_keys=True,
        nulls=NULLS_FIRST,
        text_order="letters",
        averages_cut=(Integers, Decimals),
        exact=ExactText(
            # A sign at the end, since octets are compared without zeros there.
            "CAST(CASE WHEN CHAR_LENGTH({column}) > {length} THEN '' ELSE CAST({column} AS"
            " VARCHAR({length}) CHARACTER SET {charset}) || '|' END AS"
            " VARCHAR({bytes}) CHARACTER SET OCTETS)",
            "x'{hex}7C'",
            ("CAST(", " AS VARCHAR(32765) CHARACTER SET OCTETS)"),
            plain="ascii",
            # Bytes without a character set need not be UTF-8.
            charsets={"NONE": "OCTETS", "": "UTF8"},
            pads=True,
        ),
    ),
    "postgresql": _POSTGRESQL,
    "mysql": msgspec.structs.replace(
        _MARIADB,
        title="MySQL",
        drivers={
            "pymysql": "pymysql",
            "mysqldb": "mysqlclient",
            "mysqlconnector": "mysql-connector-python",
        },
        status="untried",
        transaction=("SET SESSION max_execution_time = {ms}",),
    ),
    "mariadb": _MARIADB,
    "sqlite": KnownDialect(
        "SQLite",
        {"pysqlite": "sqlalchemy"},
        "tested",
        session=("PRAGMA query_only = ON", "PRAGMA schema_version"),  # connecting reads no file
        is_read_only=True,
        enforces_keys=True,
        nulls=NULLS_FIRST,
        compares_large=True,
        text_order="letters",
        # The affinity of a column may be that of numbers.
        exact=ExactText(
            "CAST({column} AS TEXT) COLLATE BINARY", parameter=("(", " COLLATE BINARY)")
        ),
        booleans=("0", "1"),
    ),
    "duckdb": KnownDialect(
        "DuckDB",
        {"duckdb_engine": "duckdb-engine"},
        fails=(
            "does not run: `duckdb-engine` 0.17 reflects no table by SQLAlchemy 2.1 (by 2.0 "
            "without its key). `duckdb:///…` has [an engine of its own](#duckdb-and-data-files)"
        ),
        exact=ExactText("encode(CAST({column} AS VARCHAR))", "encode({literal})", plain="none"),
    ),
    "mssql": KnownDialect(
        "SQL Server",
        {"pymssql": "pymssql", "pyodbc": "pyodbc"},
        enforces_keys=True,
        nulls=NULLS_FIRST,
        text_order="letters",
        averages_cut=(Integers,),
        booleans=("0", "1"),
    ),
    "oracle": KnownDialect(
        "Oracle",
        {"oracledb": "oracledb"},
        transaction=("SET TRANSACTION READ ONLY",),
        is_read_only=True,
        enforces_keys=True,
        nulls=NULLS_LAST,
    ),
    "trino": KnownDialect("Trino", {"": "trino"}, compares_large=True, text_order="bytes"),
    "clickhousedb": KnownDialect(
        "ClickHouse", {"": "clickhouse-connect"}, compares_large=True, text_order="bytes"
    ),
    "snowflake": KnownDialect("Snowflake", {"": "snowflake-sqlalchemy"}, compares_large=True),
    "bigquery": KnownDialect("BigQuery", {"": "sqlalchemy-bigquery"}, compares_large=True),
    "databricks": KnownDialect("Databricks", {"": "databricks-sqlalchemy"}, compares_large=True),
    "redshift": KnownDialect(
        "Redshift", {"redshift_connector": "sqlalchemy-redshift redshift-connector"}
    ),
    "awsathena": KnownDialect("Athena", {"rest": "PyAthena"}, compares_large=True),
    "cockroachdb": msgspec.structs.replace(
        _POSTGRESQL,
        title="CockroachDB",
        drivers={"psycopg": "sqlalchemy-cockroachdb psycopg[binary]"},
        status="untried",
        nulls=NULLS_FIRST,
        text_order="bytes",
        exact=None,
    ),
    "db2": KnownDialect(
        "Db2",
        {"ibm_db": "ibm-db-sa"},
        enforces_keys=True,
        nulls=NULLS_LAST,
        averages_cut=(Integers,),
    ),
    "hana": KnownDialect("SAP HANA", {"hdbcli": "sqlalchemy-hana"}, enforces_keys=True),
    "teradatasql": KnownDialect("Teradata", {"": "teradatasqlalchemy"}, averages_cut=(Integers,)),
    "exa": KnownDialect("Exasol", {"websocket": "sqlalchemy-exasol"}),
    "crate": KnownDialect("CrateDB", {"": "sqlalchemy-cratedb"}, enforces_keys=True),
}
"""By the scheme of their URLs. Others are served, too, with fewer abilities."""

UNKNOWN: Final = KnownDialect("", {})


def known(name: str) -> KnownDialect:
    """Return what is known of a dialect; some add the name of the driver to theirs."""
    return DIALECTS.get(name.partition(".")[0], UNKNOWN)
