"""The start of a worker process: a module of this package, with one end of a socket pair."""

from __future__ import annotations

import socket
import subprocess
import sys


def start(module: str, *arguments: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start `python -m MODULE FD ARGUMENT...` with nothing but the socket `FD`.

    The process has an empty environment, no standard streams and a session of its own. Returns our
    end of the socket pair, and the process.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(  # noqa: S603  our own module
                [
                    *(sys.executable, "-I", "-B", "-X", "utf8", "-m", module),
                    *(str(theirs.fileno()), *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return ours, process
