"""Environment variables in text values of the manifest: `${NAME}` and `${NAME:-default}`.

Substitution follows parsing, so that a value is never read as YAML. The default replaces an unset
or empty variable, as in a shell; `$${` is a literal `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import structs

from resource_server.manifest.data import DataPath, Positions, Problems, is_list, is_mapping

_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\})?")
_SURROGATE = re.compile("[\ud800-\udfff]")

_SHORTEST_SECRET = 4
"""Minimum characters of a secret; shorter text occurs in ordinary words."""


def substitute(
    data: dict[str, object],
    positions: Positions,
    environment: Mapping[str, str],
    problems: Problems,
) -> tuple[dict[str, object], Positions]:
    """Return the data with variables filled in, and positions that record the originals."""
    filling = _Filling(positions, environment, problems)
    filled = {key: filling.fill(value, (key,)) for key, value in data.items()}
    positions = structs.replace(
        positions,
        written=filling.written,
        variables=frozenset(filling.variables),
        unset=frozenset(filling.unset),
        undecoded=filling.undecoded,
        secrets=filling.secrets,
    )
    return filled, positions


class _Filling:
    """One pass over a manifest's data."""

    def __init__(
        self, positions: Positions, environment: Mapping[str, str], problems: Problems
    ) -> None:
        self._positions = positions
        self._environment = environment
        self._problems = problems
        self.written: dict[DataPath, str] = {}
        self.variables: set[str] = set()
        self.unset: set[DataPath] = set()
        self.undecoded: dict[DataPath, str] = {}
        self.secrets: dict[str, str] = {}

    def fill(self, value: object, path: DataPath) -> object:
        if isinstance(value, str) and "${" in value:
            return self._filled_text(value, path)
        if is_list(value):
            return [self.fill(item, (*path, index)) for index, item in enumerate(value)]
        if is_mapping(value):
            return {key: self.fill(item, (*path, key)) for key, item in value.items()}
        return value

    def _filled_text(self, text: str, path: DataPath) -> str:
        self.written[path] = text
        return _REFERENCE.sub(lambda match: self._reference(match, path), text)

    def _reference(self, match: re.Match[str], path: DataPath) -> str:
        name, default = match.groups()
        if match.group() == "$${":
            return "${"
        if name is None:
            return self._refuse(
                path, "unfinished '${'; write ${NAME}, ${NAME:-default}, or $${ for a literal ${"
            )
        value = self._environment.get(name, "")
        if value:
            self.variables.add(name)
            # Messages may quote a value by `repr`, or only one line of it.
            for text in (value, repr(value)[1:-1], *value.splitlines()):
                if len(text) >= _SHORTEST_SECRET:
                    self.secrets[text] = f"${{{name}}}"
            # `os.environ` decodes bytes that are not UTF-8 to surrogates.
            if _SURROGATE.search(value):
                self.undecoded.setdefault(path, name)
            return value
        if default is not None:
            return default
        if name in self._environment:
            return ""
        return self._refuse(
            path, f"environment variable {name} is not set; set it or write ${{{name}:-default}}"
        )

    def _refuse(self, path: DataPath, message: str) -> str:
        self.unset.add(path)
        self._problems.add(self._positions.value(path), path, message)
        return ""
