"""Converters that do what a hostile document might make one do."""

from __future__ import annotations

import ctypes
import fcntl
import os
import queue
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import BinaryIO

from resource_server.conversion.messages import Converted, send_answer
from resource_server.errors import ConversionError
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


def _queue_a_signal() -> object:
    """Try a signal that does nothing, with the call of `sigqueue`."""
    number = {"x86_64": 129}.get(os.uname().machine, 138)
    info = (ctypes.c_int * 32)(0, 0, -1)  # `SI_QUEUE`, as from a user
    return _checked(ctypes.CDLL(None, use_errno=True).syscall(number, os.getppid(), 0, info))


def _share_memory() -> object:
    """Make memory that outlives the process."""
    library = ctypes.CDLL(None, use_errno=True)
    made = _checked(library.shmget(0, 1, 0o1600))
    library.shmctl(made, 0, None)  # removes it
    return made


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def _own_the_server() -> object:
    """Name the server as who gets signals of a file; others can be chosen than that of I/O."""
    return fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())


def _flood() -> object:
    """Send more than a converter may."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        while True:
            send_answer(channel, Converted(1, None, "text/plain", "x" * 4_000_000, None))


def _long_media_type() -> object:
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        while True:
            send_answer(channel, Converted(1, None, "x" * 1_000_000, "", None))


def _hang() -> object:
    ctypes.CDLL(None).prctl(15, b"hanging")  # the name of the process
    return threading.Event().wait()


class _Thread(threading.Thread):
    """A thread from before the process is confined, which does what it is told."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._deeds = queue.SimpleQueue[tuple[Callable[[], object], Future[object]]]()
        self.start()

    def run(self) -> None:
        while True:
            deed, done = self._deeds.get()
            try:
                done.set_result(deed())
            except OSError as error:
                done.set_exception(error)

    def do(self, deed: Callable[[], object]) -> object:
        done: Future[object] = Future()
        self._deeds.put((deed, done))
        return done.result()


_EARLY = _Thread()
_DEEDS: Mapping[str, Callable[[], object]] = {
    "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
    "eat": _eat_memory,
    "drown": _flood,
    "earlier": lambda: _EARLY.do(lambda: socket.socket(socket.AF_UNIX)),
    "exit": lambda: os._exit(1),  # pyright: ignore[reportPrivateUsage]
    "fork": os.fork,
    "hang": _hang,
    "kill": lambda: os.kill(os.getppid(), 0),
    "limit": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE),
    "loop": _loop,
    "name": _long_media_type,
    "own": _own_the_server,
    "queue": _queue_a_signal,
    "read": _read_a_file,
    "run": lambda: subprocess.run(["true"], check=True),
    "secrets": lambda: dict(os.environ)["SECRET"],
    "share": _share_memory,
    "slow down": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "write": _write_a_file,
}


_CHANGES: Mapping[str, Callable[[str], object]] = {
    "attribute": lambda path: os.setxattr(path, "user.x", b"x"),
    "date": lambda path: os.utime(path, (1, 1)),
    "empty": lambda path: os.truncate(path, 0),
    "give": lambda path: os.chown(path, 1, 1),
    "link": lambda path: os.link(path, f"{path}.link"),
    "move": lambda path: Path(path).rename(f"{path}.moved"),
    "open": lambda path: os.open(path, os.O_RDONLY | os.O_TRUNC),
    "permit": lambda path: Path(path).chmod(0o700),
    "remove": os.unlink,
}


def convert(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Do what the document says."""
    deed, _, path = file.read().decode().partition("\n")
    if deed == "fine":
        yield Part("fine")
        return
    if deed == "nothing":
        while True:
            yield Part("")
    if deed == "show":
        yield from [Part(b"x" * 3_000_000, mime_type="image/png")] * 3
        return
    if deed == "drip":
        yield from (Part("drop") for _ in range(10_000))
        return
    if deed == "talk":
        raise ConversionError("no\r\n\x1b[31m" + "words " * 10_000)
    if path:
        yield Part(f"done: {_CHANGES[deed](path)!r}")
        return
    yield Part(f"done: {_DEEDS[deed]()!r}")
