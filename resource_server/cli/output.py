"""Standard output: lines for people, JSON and bytes for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import click
import msgspec

from resource_server.cli.messages import shown

_encode = msgspec.json.Encoder().encode


def is_terminal() -> bool:
    """Whether a person reads the output."""
    return sys.stdout.isatty()


def line(text: str = "") -> None:
    """Print one line."""
    sys.stdout.write(f"{text}\n")


def fields(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns; what has no value is left out."""
    known = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        line(f"{faint(shown(name).ljust(width))}  {shown(value)}")


def json(*values: object) -> None:
    """Print each value as one line of JSON, in UTF-8 whatever the locale."""
    raw(b"".join([_encode(value) + b"\n" for value in values]))


def indented_json(value: object) -> None:
    """Print a value as JSON over several lines."""
    raw(msgspec.json.format(_encode(value), indent=2) + b"\n")


def raw(data: bytes) -> None:
    """Write bytes as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def document(text: str) -> None:
    """Write the text of a document: in UTF-8, but to a terminal without what would steer it."""
    if not is_terminal():
        raw(text.encode())
        return
    lines = text.replace("\r\n", "\n").split("\n")
    for last, each in enumerate(lines, 1 - len(lines)):
        sys.stdout.write("\t".join(map(shown, each.split("\t"))) + ("" if last == 0 else "\n"))


def emphasised(text: str) -> str:
    """Return text that stands out, on a terminal that has colours."""
    return click.style(text, bold=True) if _has_colours() else text


def faint(text: str) -> str:
    """Return text that steps back, on a terminal that has colours."""
    return click.style(text, dim=True) if text and _has_colours() else text


def _has_colours() -> bool:
    # https://no-color.org
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and is_terminal()


def abbreviated(count: int) -> str:
    """Return a number of bytes in at most five characters: `812`, `1.2K`, `34M`, units of 1024."""
    number, units = float(count), iter("KMGTPE")
    unit = ""
    while number >= 999.5:
        number, unit = number / 1024, next(units)
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"
