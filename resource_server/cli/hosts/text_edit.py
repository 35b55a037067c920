"""Edits of a text at positions: applied together, and shown as a diff of what changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
