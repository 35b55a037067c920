"""The structure of JSON and YAML: a tree whose parts fold, with each value as it is written."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

import yaml
from markupsafe import Markup

from resource_server.explorer.markup import trusted
from resource_server.explorer.page import visible_text
from resource_server.runtime.yaml_composer import yaml_events

MAX_PARTS = 5_000
"""Values and collections of a tree, at most; a larger one is not made."""
_MAX_DEPTH = 50
_MAX_VALUE = 200
"""Characters of a value or key, at most."""
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")


class _Branch(NamedTuple):
    """A collection, with the keys or numbers of its members."""

    brackets: str
    members: Sequence[tuple[str, _Node]]


_Node: TypeAlias = "_Branch | str"


class _Number(str):
    """A number, `true`, `false` or `null` of JSON as it is written."""

    __slots__ = ()


class _Pairs(list[tuple[str, object]]):
    """Members of an object; several may have the same name."""


class _TooLargeError(ValueError):
    """The tree has too many parts or levels."""


def has_structure(media_type: str) -> bool:
    """Return whether documents of a type are JSON or YAML."""
    return _is_json(media_type) or media_type in _YAML or media_type.endswith("+yaml")


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")


def structure(text: str, media_type: str) -> Markup | None:
    """Return the tree of a whole document; None if it is a value, damaged or too large."""
    try:
        root = _of_json(text) if _is_json(media_type) else _of_yaml(text)
        if isinstance(root, str):
            return None
        count = iter(range(MAX_PARTS))
        return trusted(f'<ul class="tree">{"".join(_items(root, count, 0))}</ul>')
    except (ValueError, RecursionError, yaml.YAMLError):
        return None


def _of_json(text: str) -> _Node:
    def node(value: object) -> _Node:
        if isinstance(value, _Pairs):
            return _Branch("{}", [(name, node(each)) for name, each in value])
        if isinstance(value, list):
            return _Branch("[]", _numbered(map(node, value)))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, _Number):
            return str(value)
        constants: dict[object, str] = {True: "true", False: "false", None: "null"}
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else constants[value]

    return node(
        json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
        )
    )


def _of_yaml(text: str) -> _Node:
    # A key and a value of each member, and the ends.
    events = islice(yaml_events(text), 4 * MAX_PARTS)
    documents = [_yaml_node(next(events, None), events, 0) for event in events if _is_start(event)]
    (first, *others) = documents or [""]
    return _Branch("---", _numbered(documents)) if others else first


def _is_start(event: yaml.Event) -> bool:
    return isinstance(event, yaml.DocumentStartEvent)


def _yaml_node(event: yaml.Event | None, events: Iterator[yaml.Event], depth: int) -> _Node:
    if event is None or depth > _MAX_DEPTH:
        raise _TooLargeError
    if isinstance(event, yaml.AliasEvent):
        return f"*{event.anchor}"
    if isinstance(event, yaml.ScalarEvent):
        return event.value if event.implicit[0] else json.dumps(event.value, ensure_ascii=False)
    nodes: list[_Node] = []
    for each in events:
        if isinstance(each, yaml.CollectionEndEvent):
            break
        nodes.append(_yaml_node(each, events, depth + 1))
    else:
        raise _TooLargeError
    if isinstance(event, yaml.SequenceStartEvent):
        return _Branch("[]", _numbered(nodes))
    names = [each if isinstance(each, str) else "?" for each in nodes[::2]]
    return _Branch("{}", list(zip(names, nodes[1::2], strict=True)))


def _numbered(nodes: Iterable[_Node]) -> Sequence[tuple[str, _Node]]:
    return [(str(number), node) for number, node in enumerate(nodes)]


def _items(part: _Branch, count: Iterator[int], depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise _TooLargeError
    for name, node in part.members:
        if next(count, None) is None:
            raise _TooLargeError
        if isinstance(node, str):
            yield f"<li><b>{_short(name)}</b>: {_short(node)}</li>"
        else:
            size = f"{node.brackets[0]}{len(node.members)}{node.brackets[-1]}"
            inner = "".join(_items(node, count, depth + 1))
            yield (
                f"<li><details{' open' if depth < 1 else ''}><summary><b>{_short(name)}</b> "
                f"{size}</summary><ul>{inner}</ul></details></li>"
            )


def _short(text: str) -> str:
    cut = f"{text[:_MAX_VALUE]}…" if len(text) > _MAX_VALUE else text
    return html.escape(str(visible_text(cut)))
