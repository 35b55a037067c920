"""Causes of errors of MariaDB and MySQL: a table by the server's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from resource_server.providers.database.engines import causes as shared
from resource_server.runtime.causes import Cause, Causes, class_names

_SELECT: Final = "select it in the server's own client, which shows the error"

_FULL: Final = Cause(
    "busy", "the database server accepts no more connections", "raise the limit", is_temporary=True
)
_BUSY: Final = Cause("busy", "the database is busy", is_temporary=True)
_COMPLEX: Final = Cause(
    "resources",
    "it is too large or too complex for the database server",
    "raise the server's limit",
)
_PRIVILEGE: Final = Cause(
    "privilege",
    "the login lacks a privilege for it",
    "GRANT it; `resource-server sql --role` prints what the login needs",
)
_BROKEN: Final = Cause(
    "broken",
    "it is a view, and something that it uses is missing, or its definer may not read it",
    "correct the view or its DEFINER, or drop it; CHECK TABLE names what is missing",
)
_MISSING: Final = Cause(
    "broken",
    "something that it uses does not exist",
    "create what its definition names, or drop it",
)
_COLLATIONS: Final = Cause(  # or a value with characters that a column cannot have
    "value", "it compares texts of different collations", "add COLLATE to the expression"
)
_COMPUTED: Final = Cause(
    "computed",
    "a value that it computes does not exist, such as a number out of range",
    shared.CORRECT_ROWS,
)
_FUNCTION: Final = Cause("computed", "a function that it calls fails", _SELECT)
_UNSUPPORTED: Final = Cause(
    "unsupported", "the database server does not support what it needs", _SELECT
)
_FOREIGN: Final = Cause(
    "foreign",
    "its foreign server cannot be read",
    "check the CONNECTION of the table, and the other database",
)
_DAMAGED: Final = Cause(
    "damaged",
    "its data are damaged on the database server",
    "REPAIR TABLE, or restore it from a backup",
)


def _by(cause: Cause, *numbers: int) -> Causes:
    return dict.fromkeys(map(str, numbers), cause)


STATEMENT: Final[Causes] = {
    # Killed, max_statement_time, max_execution_time.
    **_by(shared.STOPPED, 1317, 1969, 3024),
    **_by(_BUSY, 1099, 1205, 1213, 1412, 1615),
    **_by(_FULL, 1040, 1041, 1203, 1226),
    **_by(shared.DISK, 1021, 1114),
    **_by(shared.MEMORY, 1037, 1038),
    # Stack, joins of more than 61 tables, MEMORY tables, recursion, memory of an optimizer or a
    # statement.
    **_by(_COMPLEX, 1116, 1117, 1118, 1119, 1436, 1456, 3170, 4164),
    **_by(_PRIVILEGE, 1044, 1142, 1143, 1227, 1345, 1370),
    **_by(shared.CHANGED, 1054, 1146),
    # 1045 and 1698 are of a definer that does not exist.
    **_by(_BROKEN, 1045, 1356, 1449, 1698),
    # Functions, character sets, collations, engines and plugins.
    **_by(_MISSING, 1115, 1273, 1286, 1305, 1458, 1524, 1932, 4079),
    **_by(shared.OPERATION, 1253),
    **_by(_COLLATIONS, 1267, 1270, 1271),
    **_by(shared.UNFIT, 1292, 1366, 1406, 3988),
    **_by(_COMPUTED, 1264, 1365, 1367, 1441, 1690, 4038),
    **_by(_FUNCTION, 1242, 1329, 1418, 1424, 1644, 1645),
    **_by(shared.WRITES, 1290, 1792, 1836),
    **_by(_UNSUPPORTED, 1031, 1178, 1235),
    **_by(_FOREIGN, 1296, 1297, 1429, 1430, 1431, 1432, 1477, 12701),
    # Files of tables, crashed tables, tablespaces, errors of storage engines.
    **_by(_DAMAGED, 1016, 1017, 1024, 1030, 1032, 1033, 1034, 1035, 1105, 1126, 1194, 1195),
    **_by(_DAMAGED, 1459, 1707, 1712, 1812, 1814, 1815, 1877, 1878),
    # The driver: a parameter that it cannot write.
    **dict.fromkeys(("TypeError", "OverflowError", "UnicodeError"), shared.UNFIT),
}
"""Of a statement."""

CONNECT: Final[Causes] = {
    **shared.NETWORK,
    "TimeoutError": Cause(  # the server speaks first; one of another kind waits
        "network",
        "no server of MariaDB or MySQL answers",
        "check the host and port in the URL, and firewalls between",
        is_temporary=True,
    ),
    **_by(_FULL, 1040, 1203, 1226),
    **_by(
        Cause(
            "login",
            "the database server refuses the login",
            "correct the user and the password in the URL, or the hosts that may use them",
        ),
        *(1045, 1130, 1251, 1698, 1820, 1862, 3118, 4151),
    ),
    **_by(
        Cause(
            "privilege",
            "the login may not use the database",
            "GRANT SELECT on it, or correct its name in the URL",
        ),
        1044,
    ),
    **_by(shared.NO_DATABASE, 1049),
    **_by(
        Cause(
            "network",
            "the database server refuses this host",
            "FLUSH HOSTS; too many attempts to connect were broken off",
        ),
        1129,
    ),
    **_by(
        Cause(
            "options",
            "the database server demands an encrypted connection",
            "add its options to the URL",
        ),
        3159,
    ),
    **_by(
        Cause(
            "network",
            "no database server of this kind answers",
            "check that host and port are the server's; it closes the connection",
            is_temporary=True,
        ),
        *(2006, 2013),
    ),
    **dict.fromkeys(("AttributeError", "TypeError", "ValueError"), shared.OPTIONS),
}
"""Of an attempt to connect; numbers from 2000 on are the driver's."""


def number(error: BaseException) -> int | None:
    """Return the error number of the server or asyncmy, or None for other errors."""
    if not type(error).__module__.startswith("asyncmy"):
        return None
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def codes(error: BaseException) -> Iterator[str]:
    """Yield the codes of an error, the most specific one first."""
    if error.__cause__ is not None:  # the reason why the server cannot be reached
        yield from class_names(error.__cause__)
    code = number(error)
    if code is None:
        yield from class_names(error)
    else:
        yield str(code)
