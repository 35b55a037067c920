"""YAML text to plain data, with the position of every key and value.

Parser events are composed here, not by PyYAML, whose composer recurses without bound (in C, past
the end of the stack), drops duplicate keys silently and loses the positions. Plain scalars follow
YAML 1.2, so `off` and `no` are text, and a key is always the text as written.
"""

from __future__ import annotations

import pathlib
import re
import stat
from dataclasses import dataclass
from typing import NoReturn

import yaml

from resource_server.manifest.data import DataPath, Place, Positions, Problems, is_mapping
from resource_server.manifest.wording import one_line, printable, quoted_value
from resource_server.runtime.yaml_events import yaml_events
from resource_server.runtime.yaml_scalars import Scalar, resolved_scalar

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Maximum values, after aliases are expanded."""

EXAMPLE = "roots: {project: {path: .}}"

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")
_COLLECTION_TAGS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


def read_manifest_text(path: pathlib.Path, problems: Problems) -> str:
    """Return the text of a manifest file, without a byte order mark.

    Raises:
        ManifestError: it is not a regular file, unreadable, larger than 1 MiB or not UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            problems.fail((0, 0), (), "not a regular file; name a manifest or a folder")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a file name"
        problems.fail((0, 0), (), f"cannot be read: {reason[:1].lower()}{reason[1:]}")
    if len(data) > MAX_BYTES:
        problems.fail((0, 0), (), "larger than 1 MiB; a manifest is a small YAML file")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        problems.fail(
            _position_in(before, len(before)), (), "not UTF-8 text; save the file as UTF-8"
        )


def parse_manifest(text: str, problems: Problems) -> tuple[dict[str, object], Positions]:
    """Return the plain data of a manifest and the positions of its values.

    Problems that do not end parsing, such as a duplicate key, are added to `problems`.

    Raises:
        ManifestError: it is not YAML, or not a single mapping.
    """
    if bad := _UNPRINTABLE.search(text):
        place = _position_in(text, bad.start())
        problems.fail(
            place, (), f"unprintable character U+{ord(bad.group()):04X}; is this a text file?"
        )
    try:
        root = _Composer(text, problems).document()
    except yaml.MarkedYAMLError as error:
        _fail_syntax(error, text, problems)
    except yaml.YAMLError as error:
        problems.fail((0, 0), (), f"not valid YAML: {printable(one_line(error))}")
    if root is None or root.value is None:
        problems.fail((1, 1), (), f"the manifest is empty; start with: {EXAMPLE}")
    flat = _Flattened(problems)
    data = flat.add(root, ())
    if not is_mapping(data):
        problems.fail(
            root.place, (), f"expected a mapping, found {quoted_value(data)}; start with: {EXAMPLE}"
        )
    return data, Positions(file=problems.file, keys=flat.keys, values=flat.values)


@dataclass(slots=True)
class _YamlNode:
    place: Place
    value: Scalar | list[_YamlNode] | dict[str, _MappingEntry]


@dataclass(slots=True)
class _MappingEntry:
    place: Place
    """Position of the key."""
    node: _YamlNode


class _Composer:
    """Composes parser events into nodes of bounded depth; aliases share the anchor's node."""

    def __init__(self, text: str, problems: Problems) -> None:
        self._events = yaml_events(text)
        self._problems = problems
        self._anchors: dict[str, _YamlNode | None] = {}
        """None while the anchor's node is being composed."""

    def document(self) -> _YamlNode | None:
        root = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    self._problems.fail(
                        _start(event),
                        (),
                        "a second YAML document; a manifest has one, so remove this '---'",
                    )
                root = self._node(next(self._events), ())
        return root

    def _node(self, event: yaml.Event, path: DataPath) -> _YamlNode:
        if len(path) > MAX_DEPTH:
            self._problems.fail(_start(event), path[:3], f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = None
        node = _YamlNode(_start(event), None)
        if isinstance(event, yaml.ScalarEvent):
            node.value = self._scalar(event, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._refuse_tag(event, event.tag, _COLLECTION_TAGS, path)
            node.value = self._sequence(path)
        elif isinstance(event, yaml.MappingStartEvent):
            self._refuse_tag(event, event.tag, _COLLECTION_TAGS, path)
            node.value = self._mapping(path)
        if anchor is not None:
            self._anchors[anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent, path: DataPath) -> _YamlNode:
        name = printable(str(event.anchor))
        node = self._anchors.get(event.anchor)
        if node is None:
            problem = (
                "refers to itself" if event.anchor in self._anchors else "has no anchor before it"
            )
            self._problems.fail(_start(event), path, f"alias '*{name}' {problem}")
        return node

    def _scalar(self, event: yaml.ScalarEvent, path: DataPath) -> Scalar:
        self._refuse_tag(event, event.tag, (None, *_STRING_TAGS), path)
        plain = event.implicit[0] and event.tag is None
        return resolved_scalar(event.value) if plain else event.value

    def _refuse_tag(
        self, event: yaml.Event, tag: str | None, known: tuple[str | None, ...], path: DataPath
    ) -> None:
        if tag not in known:
            short = printable(str(tag).replace("tag:yaml.org,2002:", "!!"))
            self._problems.add(_start(event), path, f"tag '{short}' is not supported; remove it")

    def _sequence(self, path: DataPath) -> list[_YamlNode]:
        items: list[_YamlNode] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items

    def _mapping(self, path: DataPath) -> dict[str, _MappingEntry]:
        entries: dict[str, _MappingEntry] = {}
        merged: list[_YamlNode] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            place = _start(event)
            key = self._key(event, path)
            node = self._node(next(self._events), (*path, key))
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                merged += self._merged(node, (*path, key))
            elif key in entries:
                line, _ = entries[key].place
                self._problems.add(place, (*path, key), f"duplicate key; first on line {line}")
            else:
                entries[key] = _MappingEntry(place, node)
        for node in merged:
            if isinstance(node.value, dict):
                entries = {**node.value, **entries}
        return entries

    def _key(self, event: yaml.Event, path: DataPath) -> str:
        if isinstance(event, yaml.AliasEvent):
            value = self._alias(event, path).value
        elif isinstance(event, yaml.ScalarEvent):
            value = event.value
            if event.anchor is not None:
                self._anchors[event.anchor] = _YamlNode(_start(event), value)
        else:
            value = self._node(event, (*path, "?")).value
        if not isinstance(value, str) or not value:
            self._problems.fail(
                _start(event), path, "a key must be text; is a ':' or a quote misplaced?"
            )
        return value

    def _merged(self, node: _YamlNode, path: DataPath) -> list[_YamlNode]:
        nodes = node.value if isinstance(node.value, list) else [node]
        if not all(isinstance(each.value, dict) for each in nodes):
            self._problems.add(node.place, path, "expected a mapping, or a list of them, to merge")
        return nodes


class _Flattened:
    """Plain data of nodes, and positions by path; expands aliases up to a limit."""

    def __init__(self, problems: Problems) -> None:
        self.keys: dict[DataPath, Place] = {}
        self.values: dict[DataPath, Place] = {}
        self._problems = problems

    def add(self, node: _YamlNode, path: DataPath) -> object:
        if len(self.values) >= MAX_VALUES:
            self._problems.fail(
                node.place, path[:3], f"more than {MAX_VALUES:,} values after expanding aliases"
            )
        if len(path) > MAX_DEPTH:
            self._problems.fail(node.place, path[:3], f"nested deeper than {MAX_DEPTH} levels")
        self.values[path] = node.place
        if isinstance(node.value, list):
            return [self.add(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node.value, dict):
            data: dict[str, object] = {}
            for key, entry in node.value.items():
                self.keys[*path, key] = entry.place
                data[key] = self.add(entry.node, (*path, key))
            return data
        return node.value


def _start(event: yaml.Event) -> Place:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _position_in(text: str, index: int) -> Place:
    line_start = text.rfind("\n", 0, index) + 1
    return text.count("\n", 0, index) + 1, index - line_start + 1


def _fail_syntax(error: yaml.MarkedYAMLError, text: str, problems: Problems) -> NoReturn:
    mark = error.problem_mark
    place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    opened = error.context_mark.line + 1 if error.context_mark else 0
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    character = line[mark.column : mark.column + 1] if mark else ""
    problem, context = error.problem or "", error.context or ""
    if character == "\t":
        message = "a tab; indent with spaces"
    elif "mapping values" in problem:
        message = "unexpected ':'; quote text that contains ': ', or check the indentation"
    elif "cannot start any token" in problem:
        message = f"a value cannot start with {quoted_value(character)}; quote it"
    elif "expected ':'" in problem:
        message = f"expected 'key: value' on line {opened}; is a ':' missing?"
    elif "escape" in problem:
        message = "a '\\' within double quotes starts an escape; use single quotes, or double it"
    elif "quoted scalar" in context:
        message = f"the quote opened on line {opened} is not closed"
    elif "flow" in context:
        kind, close = ("list", "]") if "sequence" in context else ("mapping", "}")
        message = f"expected ',' or '{close}' in the {kind} opened on line {opened}"
        message += "; quote text that contains '${'" if "${" in line else ""
    elif "block" in context:
        expected = "'- '" if "collection" in context else "a key and ':'"
        message = f"expected {expected}, as on line {opened}; check the indentation"
    else:
        message = printable(problem)
    problems.fail(place, (), f"not valid YAML: {message}")
