"""Ports for programs that cannot choose one themselves, such as PgBouncer and nginx."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import suppress
from typing import Final

_FIRST: Final = 20_000
_COUNT: Final = 10_000
"""Below the ports that systems give to clients and to servers that ask for any."""
_tries = itertools.count(os.getpid() * 37)


def free_port() -> int:
    """Return a port of this machine that nobody listens on; other processes begin elsewhere."""
    for number in itertools.islice(_tries, _COUNT):
        port = _FIRST + number % _COUNT
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no port is free")
