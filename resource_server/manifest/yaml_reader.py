"""Manifest text to plain data, with the position of every key and value."""

from __future__ import annotations

import pathlib
import re
import stat
from functools import partial
from typing import NoReturn

import yaml

from resource_server.manifest.data import DataPath, Place, Positions, Problems, is_mapping
from resource_server.manifest.wording import one_line, printable, quoted_value
from resource_server.runtime.yaml_composer import Oddity, YamlNode, compose

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Maximum values, after aliases are expanded."""
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"

EXAMPLE = "roots: {project: {path: .}}"

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        root = compose(text, max_depth=MAX_DEPTH, report=partial(_report, problems))
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


def _report(problems: Problems, oddity: Oddity) -> None:
    """Add what a manifest may not have."""
    kind, place, path, detail = oddity
    match kind:
        case "alias":
            problems.fail(place, path, printable(detail))
        case "depth":
            problems.fail(place, path[:3], _TOO_DEEP)
        case "document":
            problems.fail(
                place, (), "a second YAML document; a manifest has one, so remove this '---'"
            )
        case "key":
            problems.fail(place, path, "a key must be text; is a ':' or a quote misplaced?")
        case "duplicate":
            problems.add(place, path, f"duplicate key; {detail}")
        case "merged":
            problems.add(place, path, "expected a mapping, or a list of them, to merge")
        case "tag_of_others":
            short = printable(detail.replace("tag:yaml.org,2002:", "!!"))
            problems.add(place, path, f"tag '{short}' is not supported; remove it")
        case _:
            pass


class _Flattened:
    """Plain data of nodes, and positions by path; expands aliases up to a limit."""

    def __init__(self, problems: Problems) -> None:
        self.keys: dict[DataPath, Place] = {}
        self.values: dict[DataPath, Place] = {}
        self._problems = problems

    def add(self, node: YamlNode, path: DataPath) -> object:
        if len(self.values) >= MAX_VALUES:
            self._problems.fail(
                node.place, path[:3], f"more than {MAX_VALUES:,} values after expanding aliases"
            )
        if len(path) > MAX_DEPTH:
            self._problems.fail(node.place, path[:3], _TOO_DEEP)
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
