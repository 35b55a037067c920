"""The walk of a whole folder from memory, while the kernel reports no change of its structure."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from resource_server.errors import NotACollection, ResourceBusy, ResourceNotFound
from resource_server.providers.filesystem.directory import Directory, stamp
from resource_server.providers.filesystem.file_tree import FileTree, NameRun
from resource_server.providers.filesystem.search_index.index import Candidates, Moment, SearchIndex


class _Walk(NamedTuple):
    """All runs of names of one view of a folder, without descriptors."""

    runs: Sequence[NameRun]
    structure: int
    top: Directory
    withheld: object
    is_compared: bool
    """Whether all documents were compared with the index."""
    ruled: Sequence[Directory]
    """Directories with ignore files, which may be written to by names that have no watch."""


class KnownWalk:
    """The last walk of one view of a folder. Any thread may call any method."""

    def __init__(self, tree: FileTree, index: SearchIndex) -> None:
        self._tree = tree
        self._index = index
        self._walk: _Walk | None = None

    def runs(self, top: Directory, candidates: Candidates | None = None) -> Iterable[NameRun]:
        """Yield the names below the root, as `FileTree.name_runs`.

        With `candidates`, a run of documents without a descriptor has none that may match; without,
        no run has one.
        """
        moment = self._index.moment() if candidates is None else candidates.moment
        walk = self._walk
        if (
            walk is None
            or walk.structure != moment.structure
            or walk.top.stamp != top.stamp
            or walk.top.rules is not top.rules
            or walk.withheld is not self._withheld()
            or (candidates is not None and not walk.is_compared)
            or not self._has_rules(walk)
        ):
            return self._walked(top, moment)
        return walk.runs if candidates is None else self._known(walk.runs, candidates)

    def _passes_all(self, top: Directory) -> bool:
        """Return whether a walk passes all directories that its result depends on.

        It leaves out those that lead to nothing `include` selects, and where links lead.
        """
        options = self._tree.exposure.directories.values()
        has_include = top.rules.include is not None or any(
            each.include is not None for each in options
        )
        return not (has_include or self._tree.follow_links)

    def _has_rules(self, walk: _Walk) -> bool:
        """Return whether all ignore files are as they were."""
        with suppress(ResourceNotFound, ResourceBusy):
            return all(map(self._tree.directories.has_current_rules, walk.ruled))
        return False

    def _withheld(self) -> object:
        withheld = self._tree.exposure.withheld
        return None if withheld is None else withheld.lasting

    def _walked(self, top: Directory, moment: Moment) -> Generator[NameRun]:
        """Walk, and keep the runs if no directory has changed meanwhile."""
        found: list[NameRun] = []
        withheld = self._withheld()
        ruled = [top]
        has_watch, is_compared = self._passes_all(top) and moment.has_directory(top), True
        for run in self._tree.name_runs((), top):
            yield run
            found.append(replace(run, fd=-1))
            if run.entry is None:
                is_compared = is_compared and moment.has_run(run)
            elif run.entry.directory is not None:
                has_watch = has_watch and moment.has_directory(run.entry.directory)
                ruled += [run.entry.directory] if run.entry.directory.ignore_stamps else ()
        if has_watch and self._index.moment().structure == moment.structure:
            self._walk = _Walk(found, moment.structure, top, withheld, is_compared, ruled)

    def _known(self, runs: Sequence[NameRun], candidates: Candidates) -> Generator[NameRun]:
        for run in runs:
            if run.entry is not None or not candidates.may_match_in(run.directory.prefix):
                if not run.is_directory:
                    yield run
                continue
            with suppress(ResourceNotFound, NotACollection):
                fd, status = self._tree.root.open_directory(run.directory.path)
                try:
                    if run.directory.stamp.is_same_file(stamp(status)):
                        yield replace(run, fd=fd)
                finally:
                    os.close(fd)
