"""Standard streams of the command line: output, and one-line messages on standard error."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, TextIO, cast

import click
import msgspec

from resource_server.manifest.wording import printable

_encode = msgspec.json.Encoder().encode


def prepare_streams() -> None:
    """Open closed standard streams, and escape characters that the locale's encoding lacks.

    A closed stream would be None, and the next file opened would get its descriptor. Reading from
    a stream opened here finds the end; writing to standard output fails.
    """
    sys.stdin = _opened(sys.stdin, 0, os.O_RDONLY, "r")
    sys.stdout = _opened(sys.stdout, 1, os.O_RDONLY, "w")
    sys.stderr = _opened(sys.stderr, 2, os.O_WRONLY, "w")
    cast("TextIOWrapper[Any]", sys.stdout).reconfigure(errors="backslashreplace")


def _opened(stream: TextIO | None, descriptor: int, flags: int, mode: str) -> TextIO:
    if stream is not None:
        return stream
    null = os.open(os.devnull, flags)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    return cast("TextIO", open(descriptor, mode, encoding="utf-8", closefd=False))


def discard(stream: TextIO) -> None:
    """Drop buffered output that could not be written; the interpreter would retry it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def has_person() -> bool:
    """Return whether somebody at a terminal can answer a question."""
    return sys.stdin.isatty()


def flush() -> None:
    """Write buffered output now."""
    sys.stdout.flush()


def escaped(text: str) -> str:
    """Return text for one line of a terminal: control and bidirectional characters escaped."""
    return text if text.isprintable() else printable(text, longest=len(text))


def note(text: str, *, prefix: bool = True) -> None:
    """Print one line on standard error, after flushing standard output and the log."""
    with suppress(OSError):
        sys.stdout.flush()
    for handler in logging.root.handlers:
        handler.flush()
    try:
        sys.stderr.write(f"resource-server: {escaped(text)}\n" if prefix else f"{escaped(text)}\n")
    except OSError:  # the exit status still reports the failure
        discard(sys.stderr)


def fail(*lines: str, prefix: bool = True, status: int = 1) -> int:
    """Print the reason of the failure, and return the exit status."""
    for line in lines:
        note(line, prefix=prefix)
    return status


def print_line(text: str = "") -> None:
    """Print one line."""
    sys.stdout.write(f"{text}\n")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns, without the empty values."""
    filled = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in filled), default=0)
    for name, value in filled:
        print_line(f"{faint(escaped(name).ljust(width))}  {escaped(value)}")


def print_json(*values: object) -> None:
    """Print each value as one line of JSON, in UTF-8 whatever the locale."""
    write_bytes(b"".join([_encode(value) + b"\n" for value in values]))


def print_indented_json(value: object) -> None:
    """Print a value as indented JSON."""
    write_bytes(msgspec.json.format(_encode(value), indent=2) + b"\n")


def write_bytes(data: bytes) -> None:
    """Write bytes unchanged."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def write_text(text: str) -> None:
    """Write text unchanged in UTF-8; on a terminal, escape control characters."""
    if not is_terminal():
        write_bytes(text.encode())
        return
    lines = text.replace("\r\n", "\n").split("\n")
    sys.stdout.write("\n".join("\t".join(map(escaped, line.split("\t"))) for line in lines))


def emphasised(text: str) -> str:
    """Return text in bold, on a terminal with colours."""
    return click.style(text, bold=True) if _has_colours() else text


def faint(text: str) -> str:
    """Return dimmed text, on a terminal with colours."""
    return click.style(text, dim=True) if text and _has_colours() else text


def _has_colours() -> bool:
    # https://no-color.org
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and is_terminal()


def short_size(count: int) -> str:
    """Return a number of bytes in at most five characters: `812`, `1.2K`, `34M`, units of 1024."""
    number, units = float(count), iter("KMGTPE")
    unit = ""
    while number >= 999.5:
        number, unit = number / 1024, next(units)
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"
