"""Plain manifest data: paths to values, their positions in the file, and problems with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias, TypeGuard

from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest.wording import exception_text, one_line, printable

Scalar: TypeAlias = str | int | float | bool | None

DataPath: TypeAlias = tuple[str | int, ...]
"""The keys and list indexes that lead to a value; `()` is the whole manifest."""


def is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is a mapping; its keys are text."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a list."""
    return isinstance(value, list)


Place: TypeAlias = tuple[int, int]
"""Line and column, from 1; (0, 0) where no place is known."""

NOWHERE: Place = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where each key and value of a manifest stands, and which values came from the environment."""

    file: str = ""
    keys: Mapping[DataPath, Place] = field(default_factory=dict[DataPath, Place])
    values: Mapping[DataPath, Place] = field(default_factory=dict[DataPath, Place])
    written: Mapping[DataPath, str] = field(default_factory=dict[DataPath, str])
    """The text in the file of each value that environment variables became part of."""
    unset: frozenset[DataPath] = frozenset()
    """Values that name a variable which is not set, reported already."""
    undecoded: Mapping[DataPath, str] = field(default_factory=dict[DataPath, str])
    """Values with bytes that are no UTF-8, as a path may have, by the variable they came from."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What messages must not show, with the name of the variable to show in its stead."""

    def value(self, path: DataPath) -> Place:
        """Return where a value stands, or else the nearest one around it."""
        return self._nearest(self.values, path)

    def key(self, path: DataPath) -> Place:
        """Return where a value's key stands; items of a list have none: the item itself."""
        return self.keys.get(path) or self.value(path)

    def named(self, below: DataPath, words: str) -> DataPath:
        """Return the place that `tables.a.b.where` names below another, or the nearest around it.

        Of `a` and `a.b`, which may both be keys, the longer one is meant.
        """
        keys = [path[-1] for path in self.keys if path[:-1] == below]
        found = [key for key in keys if isinstance(key, str) and f"{words}.".startswith(f"{key}.")]
        if not found:
            return below
        key = max(found, key=len)
        return self.named((*below, key), words[len(key) + 1 :])

    @staticmethod
    def _nearest(places: Mapping[DataPath, Place], path: DataPath) -> Place:
        while path and path not in places:
            path = path[:-1]
        return places.get(path, NOWHERE)

    def scrub(self, error: object) -> str:
        """Return an error of foreign code as one line, without values of the environment."""
        message = exception_text(error)
        if self.secrets:
            longest_first = sorted(self.secrets, key=len, reverse=True)
            anywhere = re.compile("|".join(map(re.escape, longest_first)))
            message = anywhere.sub(lambda match: self.secrets[match.group()], message)
        return one_line(message)


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Problems:
    """The problems found in one manifest so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[Diagnostic, None] = {}

    def add(self, place: Place, path: DataPath, message: str) -> None:
        """Note a problem with the value at `path`."""
        self._found[Diagnostic(self.file, *place, dotted(path), message)] = None

    def fail(self, place: Place, path: DataPath, message: str) -> NoReturn:
        """Note a problem that nothing can be read beyond, and raise all of them."""
        self.add(place, path, message)
        raise ManifestError(self.sorted())

    def raise_any(self) -> None:
        """Raise `ManifestError` if there is a problem."""
        if self._found:
            raise ManifestError(self.sorted())

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return all problems in file order."""
        return tuple(sorted(self._found, key=lambda found: (found.line, found.column)))


def dotted(path: DataPath) -> str:
    """Return a path as people write it: `roots.project.exclude[2]`, `types["*.tpl"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}"
        else:
            text += f'["{printable(part)}"]'
    return text.removeprefix(".")
