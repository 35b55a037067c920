"""The standard streams: usable however they were left, and given up where they fail."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Any, TextIO, cast


def prepare() -> None:
    """Let no character stop a line: what the locale's encoding lacks is written escaped.

    A stream that was closed is opened on nothing: it would be None, and its descriptor that of the
    next file to be opened. Reading from it finds the end, writing output to it fails.
    """
    sys.stdin = _open(sys.stdin, 0, os.O_RDONLY, "r")
    sys.stdout = _open(sys.stdout, 1, os.O_RDONLY, "w")
    sys.stderr = _open(sys.stderr, 2, os.O_WRONLY, "w")
    cast("TextIOWrapper[Any]", sys.stdout).reconfigure(errors="backslashreplace")


def _open(stream: TextIO | None, descriptor: int, flags: int, mode: str) -> TextIO:
    if stream is not None:
        return stream
    found = os.open(os.devnull, flags)
    if found != descriptor:
        os.dup2(found, descriptor)
        os.close(found)
    return cast("TextIO", open(descriptor, mode, encoding="utf-8", closefd=False))


def discard(stream: TextIO) -> None:
    """Drop what could not be written: the interpreter would try once more at the end."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)
