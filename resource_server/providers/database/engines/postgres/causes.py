"""Causes of PostgreSQL's errors: a table by SQLSTATE, and the codes of an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from resource_server.providers.database.engines import causes as shared
from resource_server.runtime.causes import Cause, Causes, class_names

_STARTING: Final = Cause(
    "busy", "the database server is starting up or shutting down", is_temporary=True
)
_FULL: Final = Cause(
    "busy",
    "the database server accepts no more connections",
    "raise max_connections or the limit of the role, or use a pooler",
    is_temporary=True,
)
_LACKING: Final = Cause(
    "resources", "the database server lacks resources", "see the server's log", is_temporary=True
)
_MISSING: Final = Cause(
    "broken",
    "something that it uses does not exist",
    "create what its view, function or foreign server names, or drop it",
)
_ENCODING: Final = Cause(
    "value",
    "it holds text that is not in the encoding of the database",
    "clean the text; SET client_encoding = 'SQL_ASCII' shows it",
)
_DAMAGED: Final = Cause(
    "damaged",
    "its data are damaged on the database server",
    "REINDEX the table, or restore it from a backup",
)
_FILES: Final = Cause(
    "damaged", "a file of the database server cannot be read", "see the server's log"
)
_FUNCTION: Final = Cause(
    "computed", "a function that it calls fails", "select it in psql, which shows the error"
)
_FOREIGN: Final = Cause(
    "foreign",
    "its foreign server cannot be read",
    "check the options of the foreign server, its user mapping and the other database",
)
_FOREIGN_LOST: Final = Cause(
    "foreign", "its foreign server cannot be reached", _FOREIGN.remedy, is_temporary=True
)
_REFUSED_OPTIONS: Final = Cause(
    "options",
    "the database server refuses the options of the connection",
    "correct the options of the URL",
)

STATEMENT_MODE: Final = "statement pooling mode"
"""Words of a connection pooler that keeps no session for a transaction."""

STATEMENT: Final[Causes] = {
    STATEMENT_MODE: Cause(
        "options", "the connection pooler is in statement mode", "set pool_mode=transaction"
    ),
    "08": _FOREIGN_LOST,  # of our own connection, no message comes
    "0A000": Cause(
        "unsupported",
        "the database server does not support what it needs",
        "select it in psql, which shows the error",
    ),
    "22": Cause(
        "computed",
        "a value that it computes does not exist, such as of a division by zero",
        shared.CORRECT_ROWS,
    ),
    "22000": shared.UNFIT,
    "22003": shared.UNFIT,
    "22007": shared.UNFIT,
    "22008": shared.UNFIT,
    "22015": shared.UNFIT,
    "22021": _ENCODING,
    "22025": shared.UNFIT,
    "22P02": shared.UNFIT,
    "22P03": shared.UNFIT,
    "22P05": _ENCODING,
    "25006": shared.WRITES,
    "2F": _FUNCTION,
    "2F003": _FOREIGN,
    "38": _FUNCTION,
    "39": _FUNCTION,
    "3F000": shared.CHANGED,
    "40": Cause("busy", "it is in conflict with other transactions", is_temporary=True),
    "42 inside": _MISSING,
    "42501": Cause(
        "privilege",
        "the login, or the owner of a view, lacks a privilege for it",
        "GRANT it; `resource-server sql --role` prints what the login needs",
    ),
    "42703": shared.CHANGED,
    "42704": _MISSING,
    "42725": shared.OPERATION,
    "42804": shared.OPERATION,
    "42846": shared.OPERATION,
    "42883": shared.OPERATION,
    "42P01": shared.CHANGED,
    "42P21": shared.OPERATION,
    "42P22": shared.OPERATION,
    "53": _LACKING,
    "53100": shared.DISK,
    "53200": shared.MEMORY,
    "53300": _FULL,
    "53400": Cause(
        "resources",
        "it needs more temporary space than the database server allows",
        "raise temp_file_limit, or add an index",
    ),
    "54": Cause("resources", "it is too large or too complex for the database server"),
    "55000": Cause(
        "unsupported",
        "it is not in a state to be read",
        "select it in psql, which shows the error",
    ),
    "55000 ExecOpenScanRelation": Cause(
        "broken", "it is not populated", "REFRESH MATERIALIZED VIEW"
    ),
    "55006": Cause("busy", "it is in use by others", is_temporary=True),
    "55P03": Cause("busy", "the table is locked", is_temporary=True),
    "57": _STARTING,
    "57014": shared.STOPPED,
    "58": _FILES,
    "58P01": Cause(
        "missing", "a file that it is read from is missing", "correct the foreign table's options"
    ),
    "HV": _FOREIGN,
    "P0": _FUNCTION,
    "XX": Cause(
        "damaged", "the database server has an internal error", "see its log, and update it"
    ),
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
    # asyncpg: a parameter that cannot be encoded.
    "InterfaceError": shared.UNFIT,
    "UnicodeError": shared.UNFIT,
}
"""Of a statement; `inside` marks those in a function or on a foreign server."""

CONNECT: Final[Causes] = {
    **shared.NETWORK,
    "ConnectionError": Cause(  # asyncpg's own
        "options",
        "the database server offers no encrypted connection, or it is not PostgreSQL",
        "check that it offers TLS, that host and port are its own, and the options of the URL",
    ),
    "08": shared.RESET,
    "08P01": Cause(
        "options",
        "the database server or its connection pooler refuses the connection",
        "correct the URL, or the settings of the pooler",
    ),
    "0A000": _REFUSED_OPTIONS,
    "22023": _REFUSED_OPTIONS,
    "28": Cause(
        "login",
        "the database server refuses the login",
        "correct the user and the password in the URL, or let pg_hba.conf admit them",
    ),
    "3D000": shared.NO_DATABASE,
    "42501": Cause(
        "privilege",
        "the login may not connect to the database",
        "GRANT CONNECT ON DATABASE",
    ),
    "42704": _REFUSED_OPTIONS,
    "53": _LACKING,
    "53300": _FULL,
    "55000": Cause("unsupported", "the database takes no connections", "ALTER DATABASE"),
    "57": _STARTING,
    "TargetServerAttributeNotMatched": Cause(
        "options",
        "no host of the URL is a server of the kind that it asks for",
        "correct target_session_attrs, or name more hosts",
        is_temporary=True,
    ),
    # asyncpg's own checks of a URL.
    "InterfaceError": shared.OPTIONS,
    "TypeError": shared.OPTIONS,
    "ValueError": shared.OPTIONS,
}
"""Of an attempt to connect."""


def codes(error: Any) -> Iterator[str]:
    """Yield the codes of an error, the most specific one first."""
    state = str(getattr(error, "sqlstate", None) or "")
    if state:
        if STATEMENT_MODE in str(error):
            yield STATEMENT_MODE
        if routine := getattr(error, "server_source_function", None):
            yield f"{state} {routine}"
        # The message alone tells our own statement from one of a function or a foreign server.
        if getattr(error, "context", None) and state != "42501":
            yield f"{state[:2]} inside"
        yield state
        yield state[:2]
    else:
        yield from class_names(error)
