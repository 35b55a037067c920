"""Plain manifest data: paths to values, their positions in the file, and problems with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn, TypeAlias, TypeGuard

from msgspec import Struct

from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest.wording import exception_text, one_line, printable

DataPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes that lead to a value; `()` is the whole manifest."""


def is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    """Return whether a value is a mapping; its keys are text."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


Place: TypeAlias = tuple[int, int]
"""Line and column, counted from 1; (0, 0) if unknown."""

NOWHERE: Place = (0, 0)


class Positions(Struct, frozen=True, kw_only=True):
    """Positions of keys and values in the file, and values from environment variables."""

    file: str = ""
    keys: Mapping[DataPath, Place] = {}
    values: Mapping[DataPath, Place] = {}
    written: Mapping[DataPath, str] = {}
    """Original text of each value with environment variables."""
    variables: frozenset[str] = frozenset()
    """Environment variables that have given values."""
    unset: frozenset[DataPath] = frozenset()
    """Values with an unset variable; already reported."""
    undecoded: Mapping[DataPath, str] = {}
    """Variables that are not UTF-8 (allowed in paths), by the value that uses them."""
    secrets: Mapping[str, str] = {}
    """Secrets that messages must not show, with the text to show instead."""

    def __repr__(self) -> str:
        return f"Positions({self.file!r})"

    def value(self, path: DataPath) -> Place:
        """Return the position of a value, or of the nearest value around it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, NOWHERE)

    def key(self, path: DataPath) -> Place:
        """Return the position of a value's key, or of the value if it has none, as in a list."""
        return self.keys.get(path) or self.value(path)

    def named(self, below: DataPath, words: str) -> DataPath:
        """Return the path that dotted words such as `tables.a.b.where` name below another path.

        Stops at the last existing key. If both `a` and `a.b` are keys, the longer one wins.
        """
        keys = [path[-1] for path in self.keys if path[:-1] == below]
        found = [key for key in keys if isinstance(key, str) and f"{words}.".startswith(f"{key}.")]
        if not found:
            return below
        key = max(found, key=len)
        return self.named((*below, key), words[len(key) + 1 :])

    def problem(self, path: DataPath, text: str) -> Diagnostic:
        """Return a problem of a value, with its position."""
        return Diagnostic(self.file, *self.value(path), dotted(path), text)

    def scrub(self, error: object) -> str:
        """Return the text of an error from foreign code as one line, without secrets."""
        return one_line(self.without_secrets(error))

    def without_secrets(self, error: object) -> str:
        """Return the text of an error from foreign code, which may have several lines."""
        message = exception_text(error)
        if self.secrets:
            longest_first = sorted(self.secrets, key=len, reverse=True)
            anywhere = re.compile("|".join(map(re.escape, longest_first)))
            message = anywhere.sub(lambda match: self.secrets[match.group()], message)
        return message


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Problems:
    """Collects the problems of one manifest."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[Diagnostic, None] = {}

    def add(self, place: Place, path: DataPath, message: str) -> None:
        """Add a problem with the value at `path`."""
        self._found[Diagnostic(self.file, *place, dotted(path), message)] = None

    def fail(self, place: Place, path: DataPath, message: str) -> NoReturn:
        """Add a fatal problem, and raise all problems.

        Raises:
            ManifestError: always.
        """
        self.add(place, path, message)
        raise ManifestError(self.sorted())

    def raise_any(self) -> None:
        """Raise `ManifestError` if there are problems."""
        if self._found:
            raise ManifestError(self.sorted())

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return all problems in file order."""
        return tuple(sorted(self._found, key=lambda found: (found.line, found.column)))


def dotted(path: DataPath) -> str:
    """Return a data path in dotted form: `roots.project.exclude[2]`, `types["*.tpl"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}"
        else:
            text += f'["{printable(part)}"]'
    return text.removeprefix(".")
