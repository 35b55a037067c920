"""Edits of TOML at positions, which keep all other bytes.

`tomlkit` does not: with a table it removes the comment above the next one, and of tables that are
apart it removes none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

from resource_server.cli.hosts.text_edit import (
    BY_HAND,
    CannotEdit,
    Edit,
    applied,
    json_text,
    newline_of,
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


def entries(text: str, keys: Sequence[str]) -> dict[str, object]:
    """Return the members of the table at a path of keys; nothing if it does not exist.

    Raises:
        CannotEdit: the text is invalid, or has something else there.
    """
    return dict(_members(_parsed(text), keys))


def put(text: str, keys: Sequence[str], name: str, value: Mapping[str, object]) -> list[Edit]:
    """Return the edits that set a member of the table at a path of keys, made if missing."""
    newline = newline_of(text)
    block = _block((*keys, name), value, newline)
    if name in entries(text, keys):
        first, *others = _own(text, (*keys, name))
        edits = [Edit(first.start, first.end, block)]
        edits += [Edit(other.start, other.end, "") for other in others]
    else:
        last_line = "" if not text or text.endswith("\n") else newline
        edits = [Edit(len(text), len(text), f"{last_line}{newline if text else ''}{block}")]
    return _checked(text, edits, keys, name, value)


def remove(text: str, keys: Sequence[str], name: str) -> list[Edit]:
    """Return the edits that remove a member of the table at a path of keys."""
    if name not in entries(text, keys):
        return []
    edits: list[Edit] = []
    for table in _own(text, (*keys, name)):
        start, end = table.start, table.end
        blank = re.compile(r"[ \t]*\r?\n").match(text, end)
        if blank is not None:
            end = blank.end()
        elif not text[end:].strip() and (above := re.search(r"\n\r?\n\Z", text[:start])):
            start = above.start() + 1
        edits.append(Edit(start, end, ""))
    return _checked(text, edits, keys, name, None)


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


def _block(path: Sequence[str], value: Mapping[str, object], newline: str) -> str:
    lines = [f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(key)} = {_value(member)}" for key, member in value.items()]
    return "".join(f"{line}{newline}" for line in lines)


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


def _checked(
    text: str, edits: list[Edit], keys: Sequence[str], name: str, value: object
) -> list[Edit]:
    """Return the edits if they change the one member and nothing else."""
    before, after = _parsed(text), _parsed(applied(text, edits), BY_HAND)
    if _members(after, keys).get(name) != value or _rest(before, keys, name) != _rest(
        after, keys, name
    ):
        raise CannotEdit(BY_HAND)
    return edits


def _rest(document: dict[str, Any], keys: Sequence[str], name: str) -> str:
    """Return all but one member, in a form in which numbers that are none are equal."""
    table = _members(document, keys)
    table.pop(name, None)
    if not table and keys:
        _members(document, keys[:-1]).pop(keys[-1], None)
    return repr(document)


def _parsed(text: str, refusal: str | None = None) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = f"not valid TOML: {one_line(error)}; mend it first"
        raise CannotEdit(refusal or problem) from None


def _members(document: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    for key in keys:
        found: object = document.get(key, {})
        if not isinstance(found, dict):
            reason = f"'{key}' must be a table, not {quoted_value(found)}"
            raise CannotEdit(f"{reason}; mend it first")
        document = cast("dict[str, Any]", found)
    return document
