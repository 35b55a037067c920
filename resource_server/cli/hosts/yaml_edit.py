"""Edits of YAML at positions, which keep all other bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import yaml

from resource_server.cli.hosts.text_edit import (
    BY_HAND,
    CannotEdit,
    Edit,
    applied,
    json_text,
    line_number,
    newline_of,
)
from resource_server.manifest.wording import one_line

_MAX_CHARACTERS = 1_000_000
"""YAML is read slowly."""
_MAX_DEPTH = 4
"""Depth of an entry that is looked at."""

_Pair: TypeAlias = "tuple[yaml.Node, yaml.Node]"


def entries(text: str, keys: Sequence[str]) -> dict[str, object]:
    """Return the members of the mapping at a path of keys; nothing if it does not exist."""
    node, missing = _descend(text, keys)
    return (
        {}
        if node is None or missing
        else {str(key.value): _plain(value) for key, value in _pairs(node)}
    )


def put(text: str, keys: Sequence[str], name: str, value: dict[str, object]) -> list[Edit]:
    """Return the edits that set a member of the mapping at a path of keys, made if missing."""
    if name not in entries(text, keys):
        return _checked(
            text, text, _added(text, keys, name, value), keys=keys, name=name, value=value
        )
    without = applied(text, remove(text, keys, name))
    return _checked(
        text, without, _replaced(text, keys, name, value), keys=keys, name=name, value=value
    )


def remove(text: str, keys: Sequence[str], name: str) -> list[Edit]:
    """Return the edits that remove a member of the mapping at a path of keys."""
    if name not in entries(text, keys):
        return []
    return _checked(text, text, _removed(text, keys, name), keys=keys, name=name, value=None)


def _added(text: str, keys: Sequence[str], name: str, value: object) -> list[Edit]:
    node, missing = _descend(text, keys)
    first, *inner = [*missing, name]
    for key in reversed(inner):
        value = {key: value}
    newline = newline_of(text)
    if node is None:
        start = "" if not text or text.endswith("\n") else newline
        return [Edit(len(text), len(text), start + _block({first: value}, "", newline))]
    if not isinstance(node, yaml.MappingNode):  # nothing after the colon
        margin = " " * (_column_of(text, node) + 2)
        return [_after_line(text, node.start_mark.index, _block({first: value}, margin, newline))]
    pairs = _pairs(node)
    if node.flow_style:
        written = f"{json_text(first)}: {json_text(value)}"
        if not pairs:
            return [Edit(node.start_mark.index + 1, node.start_mark.index + 1, written)]
        end = _end(*pairs[-1])
        return [Edit(end, end, f", {written}")]
    margin = " " * pairs[0][0].start_mark.column
    return [_after_line(text, _end(*pairs[-1]), _block({first: value}, margin, newline))]


def _replaced(text: str, keys: Sequence[str], name: str, value: object) -> list[Edit]:
    node, _ = _descend(text, keys)
    key, present = next(pair for pair in _pairs(node) if pair[0].value == name)
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        start, end = present.start_mark.index, present.end_mark.index
        return [Edit(start, end, json_text(value))]
    start, end = _lines_of(text, key, present)
    margin = " " * key.start_mark.column
    return [Edit(start, end, _block({name: value}, margin, newline_of(text)))]


def _removed(text: str, keys: Sequence[str], name: str) -> list[Edit]:
    node, _ = _descend(text, keys)
    pairs = _pairs(node)
    place = next(i for i, (key, _) in enumerate(pairs) if key.value == name)
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        start = _end(*pairs[place - 1]) if place else pairs[place][0].start_mark.index
        is_followed = not place and len(pairs) > 1
        end = pairs[1][0].start_mark.index if is_followed else _end(*pairs[place])
        return [Edit(start, end, "")]
    start, end = _lines_of(text, *pairs[place])
    if len(pairs) > 1:
        return [Edit(start, end, "")]
    # Nothing in its place would be null.
    margin = " " * pairs[place][0].start_mark.column
    return [Edit(start, end, f"{margin}{{}}{newline_of(text)}")]


def _lines_of(text: str, key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
    """Return the lines of a member of a block."""
    end = _end(key, value)
    if text[end - 1] != "\n":
        end = text.find("\n", end) + 1 or len(text)
    return key.start_mark.index - key.start_mark.column, end


def _checked(
    text: str, other: str, edits: list[Edit], *, keys: Sequence[str], name: str, value: object
) -> list[Edit]:
    """Return the edits if they change one entry; of `other`, they change no other token."""
    after = applied(text, edits)
    expected = {**entries(text, keys), name: value}
    if value is None:
        del expected[name]
    try:
        is_right = entries(after, keys) == expected and _is_one_change(other, after)
    except (CannotEdit, yaml.YAMLError):
        is_right = False
    if not is_right:
        raise CannotEdit(BY_HAND)
    return edits


def _is_one_change(before: str, after: str) -> bool:
    """Return whether tokens were only added or removed, in one place; `{}` may take theirs."""
    first, second = _tokens(before), _tokens(after)
    shorter = min(len(first), len(second))
    start = 0
    while start < shorter and first[start] == second[start]:
        start += 1
    end = 0
    while end < shorter - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return start + end >= shorter - 2


def _tokens(text: str) -> list[tuple[str, object]]:
    loader: Any = yaml.SafeLoader(text)
    found: list[tuple[str, object]] = []
    while loader.check_token():
        token = loader.get_token()
        found.append((token.id, getattr(token, "value", None)))
    return found


def _descend(text: str, keys: Sequence[str]) -> tuple[yaml.Node | None, Sequence[str]]:
    """Return the innermost mapping, or nothing in its place, on a path; and the missing keys."""
    if len(text) > _MAX_CHARACTERS:
        raise CannotEdit(f"over {_MAX_CHARACTERS:,} characters; {BY_HAND}")
    try:
        loader: Any = yaml.SafeLoader(text)
        node: yaml.Node | None = loader.get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CannotEdit(f"not valid YAML: {one_line(error)}; mend it first") from None
    if node is None or _is_nothing(node):
        return None, keys
    _require(text, node, "the file")
    for depth, key in enumerate(keys):
        same = [pair for pair in _pairs(node) if pair[0].value == key]
        if len(same) > 1:
            line = line_number(text, same[1][0].start_mark.index)
            raise CannotEdit(f"line {line}: '{key}' is there twice; remove one of them")
        if not same:
            return node, keys[depth:]
        name, node = same[0]
        if node.start_mark.index < name.end_mark.index:
            raise CannotEdit(f"'{key}' is an alias; {BY_HAND}")
        if _is_nothing(node):
            return node, keys[depth + 1 :]
        _require(text, node, f"'{key}'")
    return node, ()


def _is_nothing(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.start_mark.index == node.end_mark.index


def _require(text: str, node: yaml.Node, what: str) -> None:
    if not isinstance(node, yaml.MappingNode):
        line = line_number(text, node.start_mark.index)
        raise CannotEdit(f"line {line}: {what} must be a mapping; mend it first")


def _pairs(node: yaml.Node | None) -> list[_Pair]:
    return node.value if isinstance(node, yaml.MappingNode) else []


def _end(key: yaml.Node, value: yaml.Node) -> int:
    """Return the end of the last token of a member: the end of a block is after its comments."""
    floor = key.end_mark.index
    if value.start_mark.index < floor:  # an alias, whose marks are those of what it names
        return floor
    while isinstance(value, yaml.CollectionNode) and value.value and not value.flow_style:
        if isinstance(value, yaml.MappingNode):
            return _end(*value.value[-1])
        floor, value = value.start_mark.index, value.value[-1]
        if value.start_mark.index < floor:
            raise CannotEdit(BY_HAND)
    return value.end_mark.index


def _after_line(text: str, position: int, block: str) -> Edit:
    """Return the edit that adds lines after the line of a position."""
    if position and text[position - 1] == "\n":
        return Edit(position, position, block)
    end = text.find("\n", position) + 1
    if end:
        return Edit(end, end, block)
    newline = newline_of(text)
    return Edit(len(text), len(text), newline + block.removesuffix(newline))


def _column_of(text: str, node: yaml.Node) -> int:
    """Return the indentation of the line on which a node begins."""
    line = text[text.rfind("\n", 0, node.start_mark.index) + 1 : node.start_mark.index]
    return len(line) - len(line.lstrip(" "))


def _block(value: Mapping[str, object], margin: str, newline: str) -> str:
    return "".join(f"{margin}{line}{newline}" for line in _lines(value))


def _lines(members: Mapping[str, object]) -> Iterator[str]:
    """Yield a mapping as block YAML, whose strings are quoted as in JSON."""
    for key, member in members.items():
        if isinstance(member, dict):
            yield f"{key}:"
            yield from (f"  {line}" for line in _lines(cast("dict[str, object]", member)))
        else:
            yield f"{key}: {json_text(member)}"


def _plain(node: yaml.Node, depth: int = 0) -> object:
    """Return a node as strings, numbers, lists and dictionaries, down to a depth."""
    if isinstance(node, yaml.ScalarNode):
        kind = node.tag.rpartition(":")[2]
        try:
            return yaml.safe_load(node.value) if kind in ("bool", "int", "null") else node.value
        except ValueError:
            return node.value
    if depth == _MAX_DEPTH:
        return None
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value, depth + 1) for key, value in node.value}
    return [_plain(value, depth + 1) for value in node.value]
