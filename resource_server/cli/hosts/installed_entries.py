"""Entries of this program in the hosts of this machine, and whether the server of each answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from resource_server.cli import console
from resource_server.cli.hosts import config_file
from resource_server.cli.hosts.answer import answer_of
from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.host import Host
from resource_server.cli.hosts.server_entry import ServerEntry
from resource_server.cli.hosts.text_edit import CannotEdit
from resource_server.manifest.databases.database_url import redacted_url
from resource_server.runtime.timing import Timing


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
