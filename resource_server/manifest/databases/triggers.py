"""The SQL of triggers by which PostgreSQL tells of changes at once, for `watch: notify`."""

from __future__ import annotations

from collections.abc import Iterator

from resource_server.manifest.databases.exposed import Exposed
from resource_server.manifest.databases.roles import double_quoted, of_schema, shown

CHANNEL = "resource_server"
"""What the server listens on."""
_TRIGGER = "resource_server_notify"


def notify(exposed: Exposed) -> str:
    """Return the SQL, to be run as it is by psql; it may be run again."""
    match exposed.engine:
        case "postgresql":
            lines = _postgresql(exposed)
        case "sqlite":
            lines = iter(("-- A SQLite file is watched for commits. Nothing to do.",))
        case _:
            lines = iter(("-- This engine cannot notify; its counters are polled. Nothing to do.",))
    return f"-- {shown(exposed.mount)}: changes are told at once\n" + "".join(
        f"{line}\n" for line in lines
    )


def _postgresql(exposed: Exposed) -> Iterator[str]:
    tables = [table for table in exposed.tables if table not in exposed.views]
    if not tables:
        yield "-- No table is exposed, and a view has no triggers of this kind. Nothing to do."
        return
    function = f"{double_quoted(tables[0].schema or 'public')}.{_TRIGGER}"
    yield "-- Run it with psql as the owner of the tables; the manifest then says `watch: notify`."
    yield "-- It tells that something was committed, not what: whoever may connect may listen."
    yield "BEGIN;"
    yield "SET LOCAL client_min_messages = warning;"
    yield f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger"
    yield "LANGUAGE plpgsql SET search_path = pg_catalog AS $$"
    yield "BEGIN"
    yield f"  PERFORM pg_notify('{CHANNEL}', '');"
    yield "  RETURN NULL;"
    yield "END $$;"
    for table in tables:
        yield f"DROP TRIGGER IF EXISTS {_TRIGGER} ON {of_schema(table)};"
        yield f"CREATE TRIGGER {_TRIGGER} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE"
        yield f"  ON {of_schema(table)} FOR EACH STATEMENT EXECUTE FUNCTION {function}();"
    yield "COMMIT;"
    for view in sorted(exposed.views):
        yield f"-- {shown(of_schema(view))} is a view: it is told of with the tables it is made of"
    yield f"-- To undo it: DROP FUNCTION {shown(function)}() CASCADE;"
