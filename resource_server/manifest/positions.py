"""Where each key and value of a manifest stands in its file, and the problems found there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest.data import DataPath
from resource_server.manifest.wording import one_line, printable, text_of

Place: TypeAlias = tuple[int, int]
"""Line and column, from 1; (0, 0) where no place is known."""

NOWHERE: Place = (0, 0)
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What messages must not show, with the name of the variable to show in its stead."""

    def value(self, path: DataPath) -> Place:
        """Return where a value stands, or else the nearest one around it."""
        return self._nearest(self.values, path)

    def key(self, path: DataPath) -> Place:
        """Return where a value's key stands; items of a list have none: the item itself."""
        return self.keys.get(path) or self.value(path)

    @staticmethod
    def _nearest(places: Mapping[DataPath, Place], path: DataPath) -> Place:
        while path and path not in places:
            path = path[:-1]
        return places.get(path, NOWHERE)

    def scrub(self, error: object) -> str:
        """Return an error of foreign code as one line, without values of the environment."""
        message = text_of(error)
        if self.secrets:
            longest_first = sorted(self.secrets, key=len, reverse=True)
            anywhere = re.compile("|".join(map(re.escape, longest_first)))
            message = anywhere.sub(lambda match: self.secrets[match.group()], message)
        return one_line(message)


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
