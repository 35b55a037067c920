"""Causes of errors of any driver: by SQLSTATE, by the classes of the DB-API, and by own codes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from resource_server.providers.database.engines import causes
from resource_server.providers.database.engines.mysql import causes as mysql
from resource_server.providers.database.engines.sqlite import causes as sqlite
from resource_server.runtime.causes import Cause, Causes, class_names, find

_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}")
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

_MYSQL: Final = ({**mysql.STATEMENT, **STATEMENT}, {**mysql.CONNECT, **CONNECT})
_OWN: Final[Mapping[str, tuple[Causes, Causes]]] = {
    "mariadb": _MYSQL,
    "mysql": _MYSQL,
    "sqlite": ({**sqlite.STATEMENT, **STATEMENT}, {**sqlite.FILE, **CONNECT}),
}
"""Causes of statements and of attempts to connect, with codes of a database's own, by dialect."""


def of_statement(error: Exception, dialect: str, *, is_lost: bool) -> tuple[Cause, str]:
    """Return the cause of an error of a statement, and the code that it is known by."""
    lost = ("Lost",) if is_lost else ()
    return find(_OWN.get(dialect, (STATEMENT, CONNECT))[0], chain(lost, _codes(error, dialect)))


def of_connecting(error: Exception, dialect: str) -> tuple[Cause, str]:
    """Return the cause of an error of an attempt to connect, and the code that it is known by."""
    return find(_OWN.get(dialect, (STATEMENT, CONNECT))[1], _codes(error, dialect))


def _codes(error: BaseException, dialect: str) -> Iterator[str]:
    """Yield the codes of an error, the most specific one first, and the names of its classes."""
    yield from database_codes(error, dialect)
    for each in reversed(_chain(error)):
        yield from class_names(each)


def database_codes(error: BaseException, dialect: str) -> Iterator[str]:
    """Yield the codes of an error that the database tells; none if it is the driver's alone."""
    for each in _chain(error):
        if dialect in _OWN:
            yield from _own_codes(each)
        for state in _states(each):
            yield state
            yield state[:3]
            yield state[:2]


def _chain(error: BaseException) -> Sequence[BaseException]:
    """Return an error, and those that caused it."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in seen:
        seen.append(following)
        following = getattr(following, "orig", None) or following.__cause__
    return seen


def _own_codes(error: Any) -> Iterator[str]:
    """Yield the codes of an error of SQLite, or the number of one of MariaDB or MySQL."""
    if hasattr(error, "sqlite_errorname"):
        yield from sqlite.codes(error)
    number = getattr(error, "errno", None) or (error.args[0] if error.args else None)
    if isinstance(number, int):
        yield str(number)


def _states(error: Any) -> Iterator[str]:
    """Yield the SQLSTATE of a driver's error: an attribute, or the first argument (ODBC)."""
    first = error.args[0] if getattr(error, "args", None) else None
    for state in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None), first):
        if isinstance(state, str) and _SQLSTATE.fullmatch(state):
            yield state
