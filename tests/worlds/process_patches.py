"""Sabotages that are in force in this process, and in the server processes that it starts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import pytest

Patch: TypeAlias = Callable[[pytest.MonkeyPatch], None]
_CODE = "import pytest, {module}\n{module}.{name}.patches[{chosen!r}](pytest.MonkeyPatch())\n"


class Sabotages:
    """The patches of one property, at most one of them in force.

    Args:
        module: The module in which they are found, so that other processes find them.
        name: Their name in it.
        patches: The patches, by name.
    """

    def __init__(self, module: str, name: str, patches: Mapping[str, Patch]) -> None:
        self.patches = patches
        self._module = module
        self._name = name
        self._chosen: str | None = None

    @contextmanager
    def in_force(self, chosen: str) -> Generator[None]:
        """Patch the server."""
        self._chosen = chosen
        with pytest.MonkeyPatch.context() as patch:
            self.patches[chosen](patch)
            try:
                yield
            finally:
                self._chosen = None

    @property
    def code(self) -> str:
        """Python that patches another process as this one is patched."""
        if self._chosen is None:
            return ""
        return _CODE.format(module=self._module, name=self._name, chosen=self._chosen)
