"""Causes of errors of any driver, by SQLSTATE and by the classes of the DB-API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from resource_server.providers.database.engines import causes
from resource_server.runtime.causes import Cause, Causes, class_names

SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}")
_BUSY: Final = Cause("busy", "the database is busy", is_temporary=True)
_PRIVILEGE: Final = Cause(
    "privilege", "the database login may not read it", "grant SELECT to the login, or hide it"
)
_LOGIN: Final = Cause(
    "login", "the database refuses the login", "correct user and password in the URL"
)

STATEMENT: Final[Causes] = {
    "Lost": causes.RESET,
    "08": causes.RESET,
    "22": causes.UNFIT,
    "28": _LOGIN,
    "40": _BUSY,
    "42501": _PRIVILEGE,
    "42P01": causes.CHANGED,
    "42S02": causes.CHANGED,
    "42S22": causes.CHANGED,
    "42703": causes.CHANGED,
    "53": causes.MEMORY,
    "55P03": _BUSY,
    "57014": causes.STOPPED,
    "57P": causes.RESET,
    "25006": causes.WRITES,
    "HY104": causes.UNFIT,  # of Firebird: more digits than it has
    "HYT00": causes.STOPPED,
    "HY008": causes.STOPPED,
    "InterfaceError": causes.RESET,
    "DataError": causes.UNFIT,
    "OverflowError": causes.UNFIT,
    "ValueError": causes.UNFIT,
    "TypeError": causes.UNFIT,
    "ArithmeticError": causes.UNFIT,
    "NotSupportedError": causes.OPERATION,
    "CompileError": causes.OPERATION,
    "MemoryError": causes.MEMORY,
}
"""Causes of errors of statements; a SQLSTATE also counts by its class, its first two characters."""
CONNECT: Final[Causes] = {
    **causes.NETWORK,
    "28": _LOGIN,
    "3D": causes.NO_DATABASE,
    "08": causes.NETWORK["OSError"],
}


def codes(error: BaseException | None, *, is_lost: bool = False) -> Iterator[str]:
    """Yield the codes of an error, the most specific one first."""
    if is_lost:
        yield "Lost"
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        for state in _states(error):
            yield state
            yield state[:3]
            yield state[:2]
        error = getattr(error, "orig", None) or error.__cause__
    for each in reversed(seen):
        yield from class_names(each)


def _states(error: Any) -> Iterator[str]:
    """Yield the SQLSTATE of a driver's error: an attribute, or the first argument (ODBC)."""
    first = error.args[0] if getattr(error, "args", None) else None
    for state in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None), first):
        if isinstance(state, str) and SQLSTATE.fullmatch(state):
            yield state
