"""Who is told of changes in a folder: a client of this server, or who reads what a peer prints.

The client can be told of changes in a database as well.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from tests.benchmarks import servers
from tests.benchmarks.client import ROOT, Client, Json

_CHUNK = 1 << 16
_PROBE = "probe.txt"
_PROBE_S = 0.3
_START_S = 20


class Event(NamedTuple):
    """What was told, and when its last byte had been read (`perf_counter`)."""

    at: float
    name: str | None
    """The file, relative to the folder; None when it is the list that has changed."""


class Subscriber(Client):
    """A client of `resource-server serve SOURCE`, which follows the list and what it asks for.

    Names are relative to `base`: by default that of a folder.
    """

    def __init__(self, source: Path, *, modern: bool, base: str | None = None) -> None:
        super().__init__(servers.ours(source), modern=modern)
        self._modern = modern
        self._base = base or f"file:///{source.name}/"
        self._names: dict[str, str] = {}
        if modern:
            self._listen({"resourcesListChanged": True})

    def subscribe(self, names: Sequence[str]) -> None:
        """Be told of these files from now on."""
        uris = [self._uri(name) for name in names]
        self._names.update(zip(uris, names, strict=True))
        if not self._modern:
            for uri in uris:
                self.request("resources/subscribe", uri=uri)
        elif uris:
            self._listen({"resourceSubscriptions": uris})

    def event(self, within: float) -> Event | None:
        """Return the next event, or None if there is none in so many seconds."""
        if self._unasked:
            line = self._unasked.popleft()
        elif b"\n" in self._received or _is_readable(self._stdout, within):
            line = self._receive_line()
        else:
            return None
        at = time.perf_counter()
        message = json.loads(line)
        if message["method"] == "notifications/resources/list_changed":
            return Event(at, None)
        assert message["method"] == "notifications/resources/updated", message
        return Event(at, self._names[message["params"]["uri"]])

    def version(self, name: str) -> object:
        """Return what a file is now: its version, or None if it is not there."""
        answer = self.answer("resources/metadata", uri=self._uri(name))
        if "error" in answer:
            return None
        return answer["result"]["resource"]["_meta"]["resource-server/version"]

    def listing(self) -> set[str]:
        """Return the names of everything that is listed."""
        uris: list[str] = []
        cursor: Json = {}
        while True:
            result = self.request("resources/list", **cursor)
            uris += [resource["uri"] for resource in result["resources"]]
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
        return {os.fsdecode(unquote_to_bytes(uri.removeprefix(self._base))) for uri in uris}

    def _uri(self, name: str) -> str:
        return self._base + quote(os.fsencode(name))

    def _listen(self, wanted: Json) -> None:
        head, tail = self._halves("subscriptions/listen", {"notifications": wanted})
        self._send(b"%b%d%b" % (head, self._next_id, tail))
        self._next_id += 1
        while True:
            line = self._receive_line()
            message = json.loads(line)
            assert "error" not in message, message
            if message["method"] == "notifications/subscriptions/acknowledged":
                assert message["params"]["notifications"] == wanted, "not all of it is honoured"
                return
            self._unasked.append(line)


class Printer:
    """A process that watches a folder and prints a path for each event."""

    def __init__(self, command: Callable[[Path], Sequence[str]], folder: Path) -> None:
        self._folder = folder
        self._received = b""
        self.process = subprocess.Popen(
            command(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
        )
        assert self.process.stdout is not None
        self._stdout = self.process.stdout.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def subscribe(self, names: Sequence[str]) -> None:
        """Do nothing: it tells of everything in the folder."""

    def event(self, within: float) -> Event | None:
        """Return the next event, or None if there is none in so many seconds."""
        until = time.perf_counter() + within
        while b"\n" not in self._received:
            if not _is_readable(self._stdout, max(0.0, until - time.perf_counter())):
                return None
            chunk = os.read(self._stdout, _CHUNK)
            if not chunk:
                return None  # it has died: nothing will come any more
            self._received += chunk
        at = time.perf_counter()
        line, _, self._received = self._received.partition(b"\n")
        return Event(at, os.path.relpath(os.fsdecode(line), self._folder))

    def version(self, name: str) -> object:
        """Return what a file is now: what tells from a change, or None if it is not there."""
        try:
            status = os.lstat(self._folder / name)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def listing(self) -> set[str]:
        """Return nothing: each file that comes has an event of its own."""
        return set()


Witness: TypeAlias = Subscriber | Printer


def stop(witness: Witness) -> None:
    """Stop the process that watches, whatever it is doing; return when it stands still."""
    witness.process.send_signal(signal.SIGSTOP)
    os.waitpid(witness.process.pid, os.WUNTRACED)


def resume(witness: Witness) -> None:
    """Let the process go on."""
    witness.process.send_signal(signal.SIGCONT)


def until_it_watches(witness: Witness, folder: Path) -> None:
    """Let a file come and go until the witness is told; leave nothing behind."""
    until = time.perf_counter() + _START_S
    probe = folder / _PROBE
    probe.touch()
    while not witness.event(_PROBE_S):
        assert time.perf_counter() < until, "nothing is told"
        if probe.exists():
            probe.unlink()
        else:
            probe.touch()
    probe.unlink(missing_ok=True)
    while witness.event(_PROBE_S):
        pass


def _is_readable(fd: int, within: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(within * 1_000))
