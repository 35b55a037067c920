"""Edits of YAML at positions, which keep all other bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import yaml
from typing_extensions import override

from resource_server.cli.hosts.text_edit import (
    BY_HAND,
    CannotEdit,
    ConfigText,
    Edit,
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


class YamlConfig(ConfigText):
    """A configuration in YAML, of blocks or of flow style."""

    @override
    def entries(self) -> dict[str, object]:
        node, missing = _descend(self.text, self.keys)
        return {} if missing else {str(key.value): _plain(value) for key, value in _pairs(node)}

    @override
    def rest(self, name: str) -> str:
        root = node = _composed(self.text)
        way: list[tuple[yaml.MappingNode, str]] = []
        for key in (*self.keys, name):
            if isinstance(node, yaml.MappingNode):
                way.append((node, key))
            node = next((value for each, value in _pairs(node) if each.value == key), None)
        for at, (holder, key) in reversed([*enumerate(way)]):
            is_kept = at < len(self.keys)
            holder.value = [
                (each, value)
                for each, value in holder.value
                if each.value != key or (is_kept and not _is_nothing(value) and value.value != [])
            ]
        pyyaml: Any = yaml
        return pyyaml.serialize(root) if root is not None and root.value else ""

    @override
    def added(self, name: str, value: object) -> list[Edit]:
        text, newline = self.text, self.newline
        node, missing = _descend(text, self.keys)
        first, *inner = [*missing, name]
        for key in reversed(inner):
            value = {key: value}
        if node is None:
            start = "" if not text or text.endswith("\n") else newline
            return [Edit(len(text), len(text), start + _block({first: value}, "", newline))]
        if not isinstance(node, yaml.MappingNode):  # nothing after the colon
            margin = " " * (_column_of(text, node) + 2)
            block = _block({first: value}, margin, newline)
            return [_after_line(text, node.start_mark.index, block)]
        pairs = _pairs(node)
        if node.flow_style:
            written = f"{json_text(first)}: {json_text(value)}"
            if not pairs:
                return [Edit(node.start_mark.index + 1, node.start_mark.index + 1, written)]
            end = _end(*pairs[-1])
            return [Edit(end, end, f", {written}")]
        margin = " " * pairs[0][0].start_mark.column
        return [_after_line(text, _end(*pairs[-1]), _block({first: value}, margin, newline))]

    @override
    def replaced(self, name: str, value: object) -> list[Edit]:
        node, _ = _descend(self.text, self.keys)
        key, present = next(pair for pair in _pairs(node) if pair[0].value == name)
        if isinstance(node, yaml.MappingNode) and node.flow_style:
            start, end = present.start_mark.index, present.end_mark.index
            return [Edit(start, end, json_text(value))]
        start, end = _lines_of(self.text, key, present)
        margin = " " * key.start_mark.column
        return [Edit(start, end, _block({name: value}, margin, self.newline))]

    @override
    def removed(self, name: str) -> list[Edit]:
        node, _ = _descend(self.text, self.keys)
        pairs = _pairs(node)
        place = next(i for i, (key, _) in enumerate(pairs) if key.value == name)
        if isinstance(node, yaml.MappingNode) and node.flow_style:
            start = _end(*pairs[place - 1]) if place else pairs[place][0].start_mark.index
            is_followed = not place and len(pairs) > 1
            end = pairs[1][0].start_mark.index if is_followed else _end(*pairs[place])
            return [Edit(start, end, "")]
        start, end = _lines_of(self.text, *pairs[place])
        if len(pairs) > 1:
            return [Edit(start, end, "")]
        # Nothing in its place would be null.
        margin = " " * pairs[place][0].start_mark.column
        return [Edit(start, end, f"{margin}{{}}{self.newline}")]


def _lines_of(text: str, key: yaml.Node, value: yaml.Node) -> tuple[int, int]:
    """Return the lines of a member of a block."""
    end = _end(key, value)
    if text[end - 1] != "\n":
        end = text.find("\n", end) + 1 or len(text)
    return key.start_mark.index - key.start_mark.column, end


def _composed(text: str) -> yaml.Node | None:
    if len(text) > _MAX_CHARACTERS:
        raise CannotEdit(f"over {_MAX_CHARACTERS:,} characters; {BY_HAND}")
    try:
        loader: Any = yaml.SafeLoader(text)
        return loader.get_single_node()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CannotEdit(f"not valid YAML: {one_line(error)}; mend it first") from None


def _descend(text: str, keys: Sequence[str]) -> tuple[yaml.Node | None, Sequence[str]]:
    """Return the innermost mapping, or nothing in its place, on a path; and the missing keys."""
    node = _composed(text)
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
