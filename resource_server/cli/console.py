"""Standard streams of the command line: output, and one-line messages on standard error."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Any, TextIO, cast

import click
import msgspec

from resource_server.manifest.wording import printable

_MIN_VALUE_COLUMNS = 20
"""Room for a value below which it is left to the terminal to break its lines."""
_PROGRESS_S = 0.25
_PROGRESS_END_S = 1.0

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


def usage_error(reason: str) -> click.UsageError:
    """Return the error of arguments that cannot be used, which is printed with the usage."""
    return click.UsageError(reason, click.get_current_context(silent=True))


def print_line(text: str = "") -> None:
    """Print one line."""
    sys.stdout.write(f"{text}\n")


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns, without the empty values.

    On a terminal, long values continue below their beginning.
    """
    filled = [(escaped(name), escaped(value)) for name, value in fields if value]
    width = max((len(name) for name, _ in filled), default=0)
    room = terminal_columns() - width - 2
    for name, value in filled:
        lines = wrapped(value, room) if room >= _MIN_VALUE_COLUMNS else [value]
        print_line(f"{faint(name.ljust(width))}  {lines[0]}")
        for line in lines[1:]:
            print_line(f"{'':{width}}  {line}")


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
    # https://no-color.org and https://force-color.org
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return os.environ.get("TERM") != "dumb" and is_terminal()


def terminal_columns() -> int:
    """Return the width of the terminal; 0 if standard output is none."""
    return _terminal_columns() if is_terminal() else 0


def terminal_lines() -> int:
    """Return the height of the terminal; 0 if standard output is none."""
    import shutil  # as in `_terminal_columns`

    return shutil.get_terminal_size().lines if is_terminal() else 0


def _terminal_columns() -> int:
    # Imported here: it loads compression, which a server does not need.
    import shutil

    return shutil.get_terminal_size().columns


@contextmanager
def progress(what: str, *, after_s: float) -> Generator[None]:
    """Show on standard error what takes longer than `after_s`, if that is a terminal.

    Print nothing inside. The line is removed at the end.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    has_ended = threading.Event()
    begun = time.monotonic()

    def show() -> None:
        wait_s = after_s
        shown = False
        with suppress(OSError):
            while not has_ended.wait(wait_s):
                # The cursor stays in front: a line of the log takes the place of this one.
                text = f"{what}, {time.monotonic() - begun:.0f} s"
                room = _terminal_columns() - 1
                sys.stderr.write(f"\r{clipped(escaped(text), room)}\r")
                sys.stderr.flush()
                shown, wait_s = True, _PROGRESS_S
            if shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        # A terminal that is stopped takes no output.
        thread.join(_PROGRESS_END_S)


# -- text in the columns of a terminal


def columns(text: str) -> int:
    """Return how many columns a terminal takes for escaped text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def clipped(text: str, room: int) -> str:
    """Return text of at most `room` columns; shortened text ends in `…`."""
    if columns(text) <= room:
        return text
    end, used = 0, 1
    while end < len(text) and used + _columns(text[end]) <= room:
        used += _columns(text[end])
        end += 1
    return f"{text[:end]}…" if room > 0 else ""


def wrapped(text: str, room: int) -> Sequence[str]:
    """Return text as lines of at most `room` columns, broken at spaces; a long word stays whole."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if columns(longer) <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
