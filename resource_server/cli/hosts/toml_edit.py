"""Edits of TOML at positions, which keep all other bytes.

`tomlkit` does not: with a table it removes the comment above the next one, and of tables that are
apart it removes none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple, cast

from typing_extensions import override

from resource_server.cli.hosts.text_edit import (
    BY_HAND,
    CannotEdit,
    ConfigText,
    Edit,
    json_text,
    without,
)
from resource_server.manifest.wording import one_line, quoted_value

_HEADER = re.compile(r"""^[ \t]*\[(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[^\n"'#])*\]""", re.MULTILINE)
_NO_STATEMENTS = re.compile(r"(?<=\n)(?:[ \t]*(?:#[^\n]*)?(?:\n|\r\n|\Z))*\Z")
"""Blank lines and comments at the end: those above the next table belong to it."""


class _TableText(NamedTuple):
    """The text of a table: its path, and its lines from the header to the last statement."""

    path: tuple[str, ...]
    start: int
    end: int


class TomlConfig(ConfigText):
    """A configuration in TOML; each server is a table with a header."""

    @override
    def entries(self) -> dict[str, object]:
        found = _parsed(self.text)
        for key in self.keys:
            inner: object = found.get(key, {})
            if not isinstance(inner, dict):
                reason = f"'{key}' must be a table, not {quoted_value(inner)}"
                raise CannotEdit(f"{reason}; mend it first")
            found = cast("dict[str, object]", inner)
        return found

    @override
    def rest(self, name: str) -> str:
        # In this form numbers that are none are equal.
        return repr(without(_parsed(self.text), (*self.keys, name)))

    @override
    def added(self, name: str, value: dict[str, object]) -> list[Edit]:
        end = len(self.text)
        last_line = "" if not self.text or self.text.endswith("\n") else self.newline
        start = f"{last_line}{self.newline if self.text else ''}"
        return [Edit(end, end, start + self._block(name, value))]

    @override
    def replaced(self, name: str, value: dict[str, object]) -> list[Edit]:
        first, *others = _own(self.text, (*self.keys, name))
        edits = [Edit(other.start, other.end, "") for other in others]
        return [Edit(first.start, first.end, self._block(name, value)), *edits]

    @override
    def removed(self, name: str) -> list[Edit]:
        text = self.text
        edits: list[Edit] = []
        for table in _own(text, (*self.keys, name)):
            start, end = table.start, table.end
            blank = re.compile(r"[ \t]*\r?\n").match(text, end)
            if blank is not None:
                end = blank.end()
            elif not text[end:].strip() and (above := re.search(r"\n\r?\n\Z", text[:start])):
                start = above.start() + 1
            edits.append(Edit(start, end, ""))
        return edits

    def _block(self, name: str, value: Mapping[str, object]) -> str:
        lines = [f"[{'.'.join(map(_key, (*self.keys, name)))}]"]
        lines += [f"{_key(key)} = {_value(member)}" for key, member in value.items()]
        return "".join(f"{line}{self.newline}" for line in lines)


def _own(text: str, path: tuple[str, ...]) -> list[_TableText]:
    """Return the texts of a table and the tables in it.

    Raises:
        CannotEdit: it has none, but is inside a line.
    """
    found = [table for table in _tables(text) if table.path[: len(path)] == path]
    if not found or found[0].path != path:
        raise CannotEdit(BY_HAND)
    return found


def _tables(text: str) -> Iterator[_TableText]:
    """Yield the tables that have a header."""
    starts = [0]
    for match in _HEADER.finditer(text):
        if _is_whole(text[starts[-1] : match.start()]):
            starts.append(match.start())
    for start, end in pairwise([*starts[1:], len(text)]):
        header = cast("re.Match[str]", _HEADER.match(text, start))
        last = _NO_STATEMENTS.search(text, header.end(), end)
        yield _TableText(_path(header[0]), start, last.start() if last else end)


def _is_whole(text: str) -> bool:
    """Return whether no string or list of a text goes on below it."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _path(header: str) -> tuple[str, ...]:
    """Return the keys of `[a.b]` or `[[a.b]]`."""
    path: list[str] = []
    node: object = tomllib.loads(header)
    while node:
        if isinstance(node, list):
            node = cast("list[object]", node)[0]
            continue
        [(key, node)] = cast("dict[str, object]", node).items()
        path.append(key)
    return tuple(path)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json_text(name)


def _value(value: object) -> str:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value).items()
        return f"{{{', '.join(f'{_key(key)} = {_value(member)}' for key, member in members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, cast('list[object]', value)))}]"
    if not isinstance(value, str | int | float):
        raise CannotEdit(BY_HAND)
    return json_text(value)


def _parsed(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CannotEdit(f"not valid TOML: {one_line(error)}; mend it first") from None
