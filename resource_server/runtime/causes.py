"""Causes of errors: what clients learn, what the operator does, and whether it passes by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

CauseClass: TypeAlias = Literal[
    "broken",
    "busy",
    "changed",
    "computed",
    "damaged",
    "foreign",
    "hidden",
    "login",
    "missing",
    "network",
    "operation",
    "options",
    "privilege",
    "resources",
    "stopped",
    "unknown",
    "unsupported",
    "value",
]
"""`broken` is a definition that uses what is not there; `computed` a value that an expression in
the database cannot give, `value` one of the caller that does not fit; `hidden` does not exist for
callers; `operation` is one that the request asks for and a type lacks; `resources` are disk and
memory."""


class Cause(NamedTuple):
    """One row of a table of causes, by the code of an error."""

    kind: CauseClass
    told: str
    """For clients: without names, paths, hosts, values and SQL."""
    remedy: str = ""
    """For the operator."""
    is_temporary: bool = False
    """Whether another attempt may succeed without the operator."""

    def after(self, what: str) -> str:
        """Return the sentence for clients that begins with what failed."""
        return f"{what}: {self.told}" if self.kind != "unknown" else f"{what}, {self.told}"


UNKNOWN = Cause(
    "unknown", "for a reason that the server's log has", "the database's own log may have more"
)

Causes: TypeAlias = Mapping[str, Cause]
"""A table of causes, by codes of errors or names of exception classes."""


def find(table: Causes, codes: Iterable[str]) -> tuple[Cause, str]:
    """Return the cause of an error, and the code that it is known by, or `UNKNOWN` and the first.

    `codes` begin with the most specific one.
    """
    first = ""
    for code in codes:
        if code in table:
            return table[code], code
        first = first or code
    return UNKNOWN, first


def class_names(error: BaseException | None) -> Iterator[str]:
    """Yield the names of an exception's classes, then those of the exceptions that caused it."""
    if error is not None:
        yield from (each.__name__ for each in type(error).__mro__[:-2])
        yield from class_names(error.__cause__)
