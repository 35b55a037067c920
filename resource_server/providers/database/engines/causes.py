"""Exceptions that causes of errors become, for every engine; and the causes of lost networks."""

from __future__ import annotations

import logging
from typing import Final

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceNotFound,
    ResourceServerError,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.contract import UnfitParameter
from resource_server.runtime.causes import Cause, Causes

REFUSED: Final = "the database refuses this query"
_UNREADABLE: Final = "cannot be read"
_EXPECTED: Final = frozenset(("busy", "changed", "stopped", "value", "operation", "hidden"))
"""Classes that ask nothing of the operator."""

# Rows that the tables of several engines share.
CORRECT_ROWS: Final = "correct the rows, or the expressions of the view"
STOPPED: Final = Cause("stopped", "time limit exceeded", is_temporary=True)
CHANGED: Final = Cause("changed", "the table has changed", is_temporary=True)
OPERATION: Final = Cause("operation", "the database has no such operation for a column's type")
UNFIT: Final = Cause(
    "value", "a value that it computes does not have the expected form", CORRECT_ROWS
)
WRITES: Final = Cause(
    "unsupported",
    "it writes when it is read, and this server only reads",
    "let its functions write nothing, or hide it",
)
DISK: Final = Cause(
    "resources", "the disk of the database server is full", "free space on it", is_temporary=True
)
MEMORY: Final = Cause(
    "resources", "the database server is out of memory", "see its log", is_temporary=True
)
NO_DATABASE: Final = Cause(
    "missing",
    "there is no such database on the server",
    "correct its name in the URL, or create it",
)
OPTIONS: Final = Cause("options", "the options of the URL cannot be used", "correct them")
"""Of drivers, which check them before they connect."""
_UNREACHABLE: Final = "the database server cannot be reached"
RESET: Final = Cause(
    "network",
    "the database server closes the connection",
    "check that host and port are the server's; see its log",
    is_temporary=True,
)

NETWORK: Final[Causes] = {
    "gaierror": Cause(
        "network",
        _UNREACHABLE,
        "no address is known for the host; correct its name in the URL, or the name service",
        is_temporary=True,
    ),
    "ConnectionRefusedError": Cause(
        "network",
        _UNREACHABLE,
        "nothing listens at the host and port; start the server, or correct them in the URL",
        is_temporary=True,
    ),
    "FileNotFoundError": Cause(
        "network",
        _UNREACHABLE,
        "there is no such socket; start the server, or correct the path in the URL",
        is_temporary=True,
    ),
    "ConnectionResetError": RESET,
    "ConnectionAbortedError": RESET,
    "TimeoutError": Cause(
        "network",
        "the database server does not answer",
        "check the host and port in the URL, and firewalls between",
        is_temporary=True,
    ),
    "SSLCertVerificationError": Cause(
        "options",
        "the certificate of the database server is not accepted",
        "name its authority in the options of the URL, or correct the host name",
    ),
    "SSLError": Cause(
        "options",
        "no encrypted connection to the database server can be made",
        "check that it offers TLS, that host and port are its own, and the options of the URL",
    ),
    "OSError": Cause(
        "network",
        _UNREACHABLE,
        "check the host and port in the URL, and the network between",
        is_temporary=True,
    ),
}
"""By exception class; the same for all drivers."""

_log = logging.getLogger(__name__)


def failure(
    found: tuple[Cause, str], *, of_query: bool = False, has_values: bool = True
) -> ResourceServerError:
    """Return what is raised for a failed statement; log what the operator has to know.

    Args:
        found: its cause, and the code that the cause is known by.
        of_query: whether it is a query of the manifest.
        has_values: whether it binds values of the caller.
    """
    cause, code = found
    if cause.kind not in _EXPECTED:
        _log.warning("database error %s (%s): %s", code, cause.kind, cause.remedy)
    match cause.kind:
        case "stopped":
            return DeadlineExceeded()
        case "options":
            return unavailable(found, "")
        case "changed" if of_query:
            return InvalidParameter(REFUSED)  # its table or column is hidden, or never was there
        case "hidden":
            return ResourceNotFound()
        case _ if cause.is_temporary:
            return ResourceBusy(cause.told)
        case _ if of_query:
            return InvalidParameter(cause.after(REFUSED))
        case "value" if has_values:
            return UnfitParameter()
        case "operation":
            return InvalidParameter(cause.told)
        case _:
            return ResourceUnreadable(cause.after(_UNREADABLE))


def unavailable(found: tuple[Cause, str], place: str, said: str = "") -> MountUnavailable:
    """Return what is raised if a database cannot be opened.

    Args:
        found: the cause, and the code that it is known by.
        place: host, port and user, or nothing; for the operator.
        said: the words of the server, if they name the fault; for the operator.
    """
    cause, code = found
    is_known = cause.kind != "unknown"
    what = cause.told if is_known else "the database cannot be opened"
    where = ", ".join(filter(None, (place, f"error {code}" if code else "", said)))
    return MountUnavailable(
        f"{what} ({where}); {cause.remedy}",
        told=what if is_known else cause.after(what),
        is_temporary=cause.is_temporary,
    )


def url_problem(problem: object) -> MountUnavailable:
    """Return what is raised for a URL that no database can be opened by."""
    return MountUnavailable(f"url: {problem}", told=OPTIONS.told, is_temporary=False)
