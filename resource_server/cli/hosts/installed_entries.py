"""Entries of this program in the hosts of this machine, and whether the server of each answers."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, cast

from resource_server.cli import console
from resource_server.cli.hosts import config_file
from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.known_hosts import Host
from resource_server.cli.hosts.server_entry import ServerEntry
from resource_server.cli.hosts.text_edit import CannotEdit
from resource_server.manifest.databases.database_url import redacted_url
from resource_server.manifest.wording import one_line
from resource_server.runtime.timing import Timing

_REQUESTS = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "resource-server install", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "resources/list"},
)
_END_S = 2.0
"""Time that a server has to end before it is killed."""


@dataclass(frozen=True, slots=True)
class InstalledEntry:
    """An entry, or a file that cannot be read: what is known of it, in words."""

    title: str
    words: str
    is_well: bool = True


def installed_entries(
    hosts: Sequence[Host], here: Folders, timing: Timing
) -> Sequence[tuple[Host, Sequence[InstalledEntry]]]:
    """Return each host with its entries, whose servers are started at the same time."""
    progress = console.progress("starting the servers of the hosts", after_s=timing.progress_s)
    with progress, ThreadPoolExecutor() as threads:

        def asked(found: InstalledEntry | tuple[str, ServerEntry]) -> InstalledEntry:
            if isinstance(found, InstalledEntry):
                return found
            is_well, words = answer_of(found[1], timing.host_answer_s)
            return InstalledEntry(found[0], words, is_well)

        waiting = [
            (host, [threads.submit(asked, each) for each in _entries(host, here)]) for host in hosts
        ]
        return [(host, [answer.result() for answer in answers]) for host, answers in waiting]


def _entries(host: Host, here: Folders) -> Iterator[InstalledEntry | tuple[str, ServerEntry]]:
    """Yield what is known already, and the titles and entries of servers that are to be started."""
    for scope, place in host.places(here).items():
        try:
            found = config_file.read(place, here).entries()
        except CannotEdit as error:
            yield InstalledEntry(scope, error.message, is_well=False)
            continue
        for name, value in found.items():
            entry = host.shape.read(name, value)
            if entry.served is None:
                continue
            title = name if scope == "user" else f"{name} ({scope})"
            if scope == "project":
                # Somebody else may have written the file: what it names is not started.
                served = json.dumps([*map(redacted_url, entry.served)])
                yield InstalledEntry(title, f"serves {served}; not started, as a project names it")
            else:
                yield title, entry


def answer_of(entry: ServerEntry, timeout_s: float) -> tuple[bool, str]:
    """Return whether the server of an entry answers, and how, in a few words."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        try:
            with _started(entry, errors) as process:
                result = _first_page(process, begin + timeout_s)
        except OSError as error:
            return False, f"cannot be started, {(error.strerror or '').lower()}"
        except queue.Empty:
            return False, f"no answer within {timeout_s:.0f} s"
        except ValueError as error:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()
            return False, one_line(lines[-1] if lines else error)
    found = result["resources"]
    more = " or more" if "nextCursor" in result else ""
    kind = "resource" if len(found) == 1 and not more else "resources"
    return True, f"answers in {time.monotonic() - begin:.1f} s with {len(found)}{more} {kind}"


@contextmanager
def _started(entry: ServerEntry, errors: IO[bytes]) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(  # noqa: S603 - the command of the person's own configuration
        entry.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, **entry.environment},
        start_new_session=True,  # uvx starts a process of its own
    )
    try:
        yield process
    finally:
        with suppress(OSError):
            cast("IO[bytes]", process.stdin).close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _first_page(process: subprocess.Popen[bytes], deadline: float) -> dict[str, Any]:
    """Return the first page of the listing.

    Raises:
        ValueError: the server ended, or answered something else.
        queue.Empty: it did not answer in time.
    """
    lines = queue.Queue[bytes]()
    # Daemon: what the server left behind may keep the stream open.
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    stdin = cast("IO[bytes]", process.stdin)
    with suppress(BrokenPipeError):  # it ended, as its output will say
        for request in _REQUESTS:
            stdin.write(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
        stdin.flush()
    while line := lines.get(timeout=max(0.0, deadline - time.monotonic())):
        try:
            message: Any = json.loads(line)
        except ValueError:
            continue  # some programs print what is no message
        if isinstance(message, dict) and cast("dict[str, Any]", message).get("id") == 2:
            match cast("dict[str, Any]", message):
                case {"result": {"resources": list()} as result}:
                    return cast("dict[str, Any]", result)
                case {"error": {"message": reason}}:
                    raise ValueError(f"answers with an error: {reason}")
                case _:
                    raise ValueError("answers something that is no listing")
    raise ValueError("it ended without an answer")


def _read(stream: IO[bytes], lines: queue.Queue[bytes]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(b"")
