"""The start of a worker process: a module of this package, with one end of a socket pair."""

from __future__ import annotations

import functools
import queue
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import TypeAlias

Process: TypeAlias = subprocess.Popen[bytes]
_Start: TypeAlias = tuple[list[str], int, Future[Process]]


def start(module: str, *arguments: str) -> tuple[socket.socket, Process]:
    """Start `python -m MODULE FD ARGUMENT...` with nothing but the socket `FD`.

    The process has an empty environment, no standard streams and a session of its own. Returns our
    end of the socket pair, and the process.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        command = [
            *(sys.executable, "-I", "-B", "-X", "utf8", "-m", module),
            *(str(theirs.fileno()), *arguments),
        ]
        started: Future[Process] = Future()
        _starts().put((command, theirs.fileno(), started))
        try:
            return ours, started.result()
        except BaseException:
            ours.close()
            raise


@functools.lru_cache(maxsize=1)
def _starts() -> queue.SimpleQueue[_Start]:
    """Return the queue of the thread that starts all workers, until this process ends.

    On Linux, a worker asks to be ended with the thread that has started it.
    """
    starts: queue.SimpleQueue[_Start] = queue.SimpleQueue()
    threading.Thread(target=_work, args=(starts,), name="starter", daemon=True).start()
    return starts


def _work(starts: queue.SimpleQueue[_Start]) -> None:
    while True:
        command, fd, started = starts.get()
        try:
            process = subprocess.Popen(  # noqa: S603  our own module
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=(fd,),
                start_new_session=True,
            )
        except BaseException as error:
            started.set_exception(error)
        else:
            started.set_result(process)
        del command, started
