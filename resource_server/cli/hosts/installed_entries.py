"""Entries of this program in the hosts of this machine, and whether the server of each answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from resource_server.cli.hosts import config_file
from resource_server.cli.hosts.answer import answer_of
from resource_server.cli.hosts.entry import Entry
from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.host import Host
from resource_server.cli.hosts.text_edit import CannotEdit
from resource_server.manifest.databases.database_url import redacted_url


@dataclass(frozen=True, slots=True)
class InstalledEntry:
    """An entry, or a file that cannot be read: what is known of it, in words."""

    title: str
    words: str
    is_well: bool = True


def installed_entries(
    hosts: Sequence[Host], here: Folders, timeout_s: float
) -> Iterator[tuple[Host, Sequence[InstalledEntry]]]:
    """Yield each host with its entries, whose servers are started at the same time."""
    with ThreadPoolExecutor() as threads:

        def asked(found: InstalledEntry | tuple[str, Entry]) -> InstalledEntry:
            if isinstance(found, InstalledEntry):
                return found
            is_well, words = answer_of(found[1], timeout_s)
            return InstalledEntry(found[0], words, is_well)

        waiting = [
            (host, [threads.submit(asked, each) for each in _entries(host, here)]) for host in hosts
        ]
        for host, answers in waiting:
            yield host, [answer.result() for answer in answers]


def _entries(host: Host, here: Folders) -> Iterator[InstalledEntry | tuple[str, Entry]]:
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
