"""The problems found in a manifest, each where it stands."""

from __future__ import annotations

import re
from typing import NoReturn

from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest.data import DataPath
from resource_server.manifest.positions import Place
from resource_server.manifest.wording import printable

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
