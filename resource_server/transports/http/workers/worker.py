"""One of several processes that serve on one socket, and what it shares with the others."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from resource_server.runtime.server_key import process_key
from resource_server.transports.http.workers.shared_memory import SharedMemory


class Workers:
    """The shared state of the workers of one server, made before the first one starts.

    They inherit one listening socket: a connection waits for whichever accepts it, so none is lost
    with a worker, as it would be in a queue of its own (`SO_REUSEPORT`).
    """

    def __init__(self, count: int, listening: socket.socket) -> None:
        # A session outlives the worker that has it, as after a restart.
        process_key().is_shared = True
        self.count = count
        self.listening = listening
        self.memory = SharedMemory(count)
        self.mailboxes = [_Mailbox(*socket.socketpair()) for _ in range(count)]
        """Each receives the requests of its worker's sessions."""
        for end in (end for mailbox in self.mailboxes for end in mailbox):
            end.setblocking(False)
        self.life, self.held_by_parent = os.pipe()
        """`life` can be read once the parent has ended, which alone holds the other end."""

    def home_of(self, session_id: str) -> int:
        """Return the number of the worker that has a session, by its id."""
        return crc32(session_id.encode("latin-1", "replace")) % self.count


class _Mailbox(NamedTuple):
    inlet: socket.socket
    outlet: socket.socket


class Worker(NamedTuple):
    """One worker; `ready` tells the parent that it accepts connections."""

    number: int
    workers: Workers
    ready: Callable[[], None]

    @property
    def reports(self) -> bool:
        """Whether it reports for all workers."""
        return self.number == 0

    def is_home(self, session_id: str) -> bool:
        """Return whether a session with this id is one of this worker."""
        return self.workers.home_of(session_id) == self.number

    def share(self, limit: int, name: str) -> int:
        """Return this worker's share of a limit; all shares together are the limit.

        Raises:
            ValueError: the share is nothing.
        """
        share, rest = divmod(limit, self.workers.count)
        if not share:
            raise ValueError(f"{name} is {limit}, less than there are workers; raise it")
        return share + (self.number < rest)
