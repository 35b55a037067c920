"""Scanners without events, or with a source of events that a test controls."""

from __future__ import annotations

import os
import resource
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from resource_server.provider import Change
from resource_server.providers.filesystem.contained_root import ContainedRoot
from resource_server.providers.filesystem.exposure.rules import (
    DirectoryRules,
    ExposureRules,
)
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from tests.listeners import Folder


def plant(folder: Folder, count: int = 600) -> list[str]:
    """Make so many directories in ten, and return their names."""
    names = [f"d{number % 10}/e{number:04}" for number in range(count)]
    for name in names:
        folder.make(name)
    return names


class Meddler:
    """A source of no events; an ignore file is written just before it is watched."""

    def __init__(self, folder: Folder, *texts: str) -> None:
        self._folder = folder
        self._left = [*texts]

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        pass

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        if self._left:
            self._folder.write(prefix + name, self._left.pop())

    def remove(self, prefix: str, name: str = "") -> None:
        pass


class Register:
    """A source of no events; which directory it watches in each place, by its inode."""

    def __init__(self) -> None:
        self.watched: dict[str, int] = {}

    def add(self, prefix: str, fd: int, *, content: bool) -> None:
        self.watched[prefix] = os.fstat(fd).st_ino

    def add_file(self, prefix: str, name: str, fd: int) -> None:
        pass

    def remove(self, prefix: str, name: str = "") -> None:
        self.watched.pop(prefix + name, None)


def inodes(folder: Folder, prefixes: Iterable[str]) -> dict[str, int]:
    return {prefix: folder.at(prefix).stat().st_ino for prefix in prefixes}


@contextmanager
def no_descriptors() -> Generator[None]:
    """Let this process open nothing more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def work(scanner: DirectoryScanner) -> list[Change]:
    """Return what is found until there is nothing left to do."""
    found: list[Change] = []
    while scanner.has_work:
        found += scanner.work()
    return found


def tree_of(folder: Folder, *, follow_links: bool = False) -> FileTree:
    return FileTree(
        ContainedRoot(str(folder.root)),
        ExposureRules({}),
        DirectoryRules(),
        follow_links=follow_links,
    )
