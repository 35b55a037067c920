"""Edits of a configuration's text at positions, which keep all other bytes."""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import click

BY_HAND = "this file needs an editor; --print has the entry"


class CannotEdit(click.ClickException):
    """A configuration cannot be edited, and stays as it is; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of `text[start:end]`."""

    start: int
    end: int
    text: str


def applied(text: str, edits: Sequence[Edit]) -> str:
    """Return a text after edits, whose positions are those in the text before."""
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        parts += text[done : edit.start], edit.text
        done = edit.end
    return "".join([*parts, text[done:]])


def json_text(value: object, indent: str | None = None) -> str:
    """Return JSON whose strings are valid in YAML and TOML, too."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def diff_lines(text: str, edits: Sequence[Edit]) -> Iterator[str]:
    """Yield a unified diff without context, so that secrets beside an entry are not shown."""
    for edit in sorted(edits, key=lambda edit: edit.start):
        yield f"@@ line {line_number(text, edit.start)} @@"
        for sign, part in ("-", text[edit.start : edit.end]), ("+", edit.text):
            yield from (f"{sign}{line}" for line in part.splitlines() if line.strip())


def line_number(text: str, position: int) -> int:
    """Return the number of the line, from 1, at a position."""
    return text.count("\n", 0, position) + 1


def newline_of(text: str) -> str:
    """Return how the lines of a text end, by the first of them."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


class ConfigText(abc.ABC):
    """The text of a configuration, and the servers at a path of keys in it.

    Its methods raise `CannotEdit` for text that is invalid or has something else there.
    """

    def __init__(self, text: str, keys: Sequence[str]) -> None:
        self.text = text
        self.keys = keys
        self.newline = newline_of(text)

    @abc.abstractmethod
    def entries(self) -> dict[str, object]:
        """Return the servers by name; nothing if the keys do not exist."""

    @abc.abstractmethod
    def rest(self, name: str) -> str:
        """Return all but one server and what only holds it, in a form that tells any change."""

    @abc.abstractmethod
    def added(self, name: str, value: dict[str, object]) -> list[Edit]:
        """Return the edits that add a server, and the keys if they are missing."""

    @abc.abstractmethod
    def replaced(self, name: str, value: dict[str, object]) -> list[Edit]:
        """Return the edits that replace a server."""

    @abc.abstractmethod
    def removed(self, name: str) -> list[Edit]:
        """Return the edits that remove a server."""

    def put(self, name: str, value: dict[str, object]) -> list[Edit]:
        """Return the edits that set a server."""
        edits = (self.replaced if name in self.entries() else self.added)(name, value)
        return self._checked(edits, name, value)

    def remove(self, name: str) -> list[Edit]:
        """Return the edits that remove a server, if it is there."""
        return self._checked(self.removed(name), name, None) if name in self.entries() else []

    def _checked(self, edits: list[Edit], name: str, value: object) -> list[Edit]:
        """Return the edits if they change the one server and nothing else."""
        after = type(self)(applied(self.text, edits), self.keys)
        try:
            is_right = after.entries().get(name) == value and after.rest(name) == self.rest(name)
        except CannotEdit:
            is_right = False
        if not is_right:
            raise CannotEdit(BY_HAND)
        return edits


def without(document: Mapping[str, object], path: Sequence[str]) -> dict[str, object]:
    """Return data without what is at a path of keys, and without what is empty then."""
    first, *others = path
    found = {key: value for key, value in document.items() if key != first}
    inner = document.get(first)
    if others and isinstance(inner, dict):
        inner = without(cast("dict[str, object]", inner), others)
    return {**found, first: inner} if others and inner else found
