"""Converters that do what a hostile document might make one do."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from resource_server.provider.conversion import ConversionRequest, Part


def _read_a_file() -> object:
    with open("/etc/passwd", "rb") as file:  # noqa: PTH123
        return file.read()


def _write_a_file() -> object:
    with open("/tmp/written-by-a-converter", "wb") as file:  # noqa: PTH123, S108
        return file.write(b"x")


def _eat_memory() -> object:
    return bytearray(2_000_000_000)


def _loop() -> object:
    while True:
        pass


_DEEDS: Mapping[str, Callable[[], object]] = {
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "eat": _eat_memory,
    "exit": lambda: os._exit(1),  # pyright: ignore[reportPrivateUsage]
    "fork": os.fork,
    "kill": lambda: os.kill(os.getppid(), 0),
    "loop": _loop,
    "read": _read_a_file,
    "run": lambda: subprocess.run(["true"], check=True),
    "secrets": lambda: dict(os.environ)["SECRET"],
    "write": _write_a_file,
}


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Do what the document says."""
    deed = file.read().decode()
    if deed == "fine":
        yield Part("fine")
        return
    yield Part(f"done: {_DEEDS[deed]()!r}")
