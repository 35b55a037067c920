"""Functions of declared queries that may read what a policy hides: SQL or tables named in text.

A rewritten query reads only visible parts of its tables, but `query_to_xml('select …')`,
`table_to_xml('audit')` or a stored function read whatever the login may. The database's own catalog
says what a function may do: PostgreSQL by its volatility, MariaDB and MySQL by `NO SQL`. On DuckDB,
`duckdb.parsed_query` asks the catalog; on SQLite, the authorizer sees each table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.queries.callers.sql_vocabulary import VOCABULARY

RunOwn: TypeAlias = Callable[..., Awaitable[Sequence[tuple[object, ...]]]]
"""Returns the rows of a statement of the program's own, given its parameters."""


class CalledFunction(NamedTuple):
    """The name of a function in a query; `schema` is empty if it is not qualified."""

    schema: str
    name: str
    is_attribute: bool = False
    """Whether it is written `row.name`, which may be a column or a function of the row."""


_OF_ARGUMENTS_AND_SESSION: Final = """
clock_timestamp convert convert_from convert_to current_database current_schema current_schemas
current_setting current_user enum_first enum_last enum_range format format_type gen_random_uuid
get_current_ts_config in_range inet_client_addr inet_client_port inet_server_addr inet_server_port
json_populate_record json_populate_recordset json_to_record json_to_recordset json_to_tsvector
jsonb_path_exists_tz jsonb_path_match_tz jsonb_path_query_array_tz jsonb_path_query_first_tz
jsonb_path_query_tz jsonb_populate_record jsonb_populate_recordset jsonb_to_record
jsonb_to_recordset jsonb_to_tsvector money pg_backend_pid pg_client_encoding pg_column_size
pg_sleep pg_typeof quote_nullable random random_normal session_user setseed timeofday ts_parse
ts_token_type version xml xml_is_well_formed
"""
"""Functions of PostgreSQL that are not immutable, and depend on no table."""
_OF_EXTENSIONS: Final = "unaccent uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4"
"""The same of extensions: `unaccent` reads a file of rules."""
_POSTGRESQL: Final = """
SELECT p.proname::text
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
JOIN ROWS FROM (
  pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bool[])
) c (schema, name, is_attribute) ON pg_catalog.lower(p.proname) = c.name
LEFT JOIN pg_catalog.pg_type t ON p.pronargs = 1 AND t.oid = p.proargtypes[0]
WHERE p.prokind IN ('f', 'w') AND p.provolatile <> 'i'
  AND CASE c.schema WHEN '' THEN n.nspname = ANY (pg_catalog.current_schemas(true))
    ELSE pg_catalog.lower(n.nspname) = c.schema END
  AND (NOT c.is_attribute OR t.typtype = 'c')
  AND NOT (n.nspname = 'pg_catalog' AND p.proname = ANY ($4::text[]))
  AND NOT (p.proname = ANY ($5::text[]) AND p.prolang = (
    SELECT l.oid FROM pg_catalog.pg_language l WHERE l.lanname = 'c'))
LIMIT 1"""
_MYSQL: Final = """
SELECT ROUTINE_NAME FROM information_schema.ROUTINES
WHERE ROUTINE_TYPE = 'FUNCTION' AND SQL_DATA_ACCESS <> 'NO SQL'
AND LOWER(ROUTINE_SCHEMA) = LOWER(IF(%s = '', DATABASE(), %s)) AND LOWER(ROUTINE_NAME) = %s
LIMIT 1"""
_MYSQL_READING: Final = frozenset("lastval load_file nextval setval".split())


async def reading(
    functions: Iterable[CalledFunction], engine: EngineName, run_own: RunOwn
) -> str | None:
    """Return the name of a function that may read tables, files or sequences; None if none may."""
    called = sorted(
        {CalledFunction(each.schema, each.name.lower(), each.is_attribute) for each in functions}
    )
    if engine == "postgresql":
        return await _reading_on_postgresql(called, run_own)
    if engine not in ("mysql", "mariadb"):
        return None
    for schema, name, is_attribute in called:
        if is_attribute:
            continue
        if name in _MYSQL_READING:
            return name
        if (schema or name not in VOCABULARY[engine]) and await run_own(
            _MYSQL, schema, schema, name
        ):
            return name
    return None


async def _reading_on_postgresql(called: Sequence[CalledFunction], run_own: RunOwn) -> str | None:
    if not called:
        return None
    safe = [*VOCABULARY["postgresql"], *_OF_ARGUMENTS_AND_SESSION.split()]
    columns = [list(column) for column in zip(*called, strict=True)]
    found = await run_own(_POSTGRESQL, *columns, safe, _OF_EXTENSIONS.split())
    return str(found[0][0]) if found else None
