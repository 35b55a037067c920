"""YAML 1.2 (core schema) composed with positions and within bounds, for every reader of YAML.

Parser events are composed here, not by PyYAML, whose composer recurses without bound (in C, past
the end of the stack), drops duplicate keys silently, loses the positions, and takes `off`, `no` and
dates for values that are no text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, NoReturn, TypeAlias, cast

import yaml

Scalar: TypeAlias = str | int | float | bool | None
Place: TypeAlias = tuple[int, int]
"""Line and column, counted from 1."""
NodePath: TypeAlias = tuple[str | int, ...]
"""Keys and list indexes that lead to a node."""

_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS: dict[type[yaml.Event], str] = {
    yaml.ScalarEvent: "tag:yaml.org,2002:str",
    yaml.SequenceStartEvent: "tag:yaml.org,2002:seq",
    yaml.MappingStartEvent: "tag:yaml.org,2002:map",
}


@dataclass(slots=True)
class YamlNode:
    """A value with its position."""

    place: Place
    value: Scalar | list[YamlNode] | dict[str, YamlEntry]
    is_plain: bool = False
    """Whether it is a scalar without quotes and tag."""


@dataclass(slots=True)
class YamlEntry:
    """A value of a mapping, with the position of its key."""

    place: Place
    node: YamlNode


OddityKind: TypeAlias = Literal[
    "alias",  # to a node around it, or to none
    "depth",  # too many levels
    "document",  # a second one
    "key",  # no text, or empty
    # The ones above end the composition.
    "anchor",
    "directive",  # or `---`
    "duplicate",  # a key of the same mapping
    "end",  # a line `...`
    "merge",  # a key `<<`
    "merged",  # no mapping to merge
    "tag",  # that of the node's kind: `!`, and `!!str`, `!!seq` or `!!map`
    "tag_of_others",
    "typed_key",  # text here; to other parsers a number, a boolean or null: `1: x`
]
"""Ways in which a text is odd."""


class Oddity(NamedTuple):
    """Something that a reader may refuse."""

    kind: OddityKind
    place: Place
    path: NodePath
    detail: str = ""


def compose(text: str, *, max_depth: int, report: Callable[[Oddity], None]) -> YamlNode | None:
    """Return the root of a document, whose aliases share the anchor's node; report its oddities.

    The root is None if there is no document, or if an oddity ended it. Oddities before an error are
    reported, too.

    Raises:
        yaml.YAMLError: the text is not YAML.
    """
    try:
        return _Composer(text, max_depth, report).document()
    except _EndError:
        return None


class _EndError(Exception):
    """Composition cannot go on."""


class _Composer:
    def __init__(self, text: str, max_depth: int, report: Callable[[Oddity], None]) -> None:
        self._report = report
        self._events = yaml_events(text)
        self._max_depth = max_depth
        self._anchors: dict[str, YamlNode | None] = {}
        """None while the anchor's node is being composed."""

    def document(self) -> YamlNode | None:
        root = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._end("document", event, ())
                if event.explicit:
                    self._note("directive", event, ())
                root = self._node(next(self._events), ())
            elif isinstance(event, yaml.DocumentEndEvent) and event.explicit:
                self._note("end", event, ())
        return root

    def _note(self, kind: OddityKind, event: yaml.Event, path: NodePath, detail: str = "") -> None:
        self._report(Oddity(kind, _start(event), path, detail))

    def _end(
        self, kind: OddityKind, event: yaml.Event, path: NodePath, detail: str = ""
    ) -> NoReturn:
        self._note(kind, event, path, detail)
        raise _EndError

    def _node(self, event: yaml.Event, path: NodePath) -> YamlNode:
        if len(path) > self._max_depth:
            self._end("depth", event, path)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self._note("anchor", event, path)
            self._anchors[anchor] = None
        if (tag := getattr(event, "tag", None)) is not None:
            is_own = tag in ("!", _TAGS.get(type(event)))
            self._note("tag" if is_own else "tag_of_others", event, path, tag)
        node = YamlNode(_start(event), None)
        if isinstance(event, yaml.ScalarEvent):
            node.is_plain = event.implicit[0] and tag is None
            node.value = resolved_scalar(event.value) if node.is_plain else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            node.value = self._sequence(path)
        elif isinstance(event, yaml.MappingStartEvent):
            node.value = self._mapping(path)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent, path: NodePath) -> YamlNode:
        node = self._anchors.get(event.anchor)
        if node is None:
            is_around = event.anchor in self._anchors
            reason = "refers to itself" if is_around else "has no anchor before it"
            self._end("alias", event, path, f"alias '*{event.anchor}' {reason}")
        return node

    def _sequence(self, path: NodePath) -> list[YamlNode]:
        items: list[YamlNode] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items

    def _mapping(self, path: NodePath) -> dict[str, YamlEntry]:
        entries: dict[str, YamlEntry] = {}
        merged: list[YamlNode] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, is_plain = self._key(event, path)
            at = (*path, key)
            node = self._node(next(self._events), at)
            if key == "<<" and is_plain:
                self._note("merge", event, at)
                nodes = node.value if isinstance(node.value, list) else [node]
                if not all(isinstance(each.value, dict) for each in nodes):
                    self._report(Oddity("merged", node.place, at))
                merged += nodes
            elif key in entries:
                self._note("duplicate", event, at, f"first on line {entries[key].place[0]}")
            else:
                entries[key] = YamlEntry(_start(event), node)
        for node in merged:
            if isinstance(node.value, dict):
                entries = {**node.value, **entries}
        return entries

    def _key(self, event: yaml.Event, path: NodePath) -> tuple[str, bool]:
        """Return a key as written, and whether it is plain."""
        inner = isinstance(event, yaml.CollectionStartEvent)
        node = self._node(event, (*path, "?") if inner else path)
        if isinstance(event, yaml.ScalarEvent):
            if not isinstance(node.value, str):
                self._note("typed_key", event, path)
            node.value = event.value
        if not isinstance(node.value, str) or not node.value:
            self._end("key", event, path)
        return node.value, node.is_plain


def _start(event: yaml.Event) -> Place:
    return event.start_mark.line + 1, event.start_mark.column + 1


def yaml_events(text: str) -> Iterator[yaml.Event]:
    """Yield the parser events of a text. A reader has to stop before a thousand levels.

    Raises:
        yaml.YAMLError: the text is not YAML.
    """
    seen = 0
    while True:
        try:
            events = cast(
                "Iterator[yaml.Event]",
                yaml.parse(text, Loader=_Parser),  # pyright: ignore[reportUnknownMemberType]
            )
            for event in islice(events, seen, None):
                seen += 1
                yield event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            if mark is None or "maximum nesting depth" not in str(error.problem):
                raise
            # From 6.0.4 on, PyYAML refuses the thousandth level, before any event of the first:
            # the text up to there has all the levels that a reader needs to refuse it.
            lines = text.splitlines(keepends=True)
            text = "".join(lines[: mark.line]) + lines[mark.line][: mark.column]
        else:
            return


# -- plain scalars

_INTEGER = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]{1,300}|[0-9]{1,300}(\.[0-9]{0,300})?)([eE][-+]?[0-9]{1,5})?|[-+]?\.(inf|Inf|INF)"
)
_CONSTANTS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


def resolved_scalar(text: str) -> Scalar:
    """Return the value of a plain scalar. Numbers of more than 300 digits stay text."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf"))
    return text
