"""The skills of a folder: found by a walk that is reused, checked, with digests cached by version.

A skill is what this view of the folder exposes: hidden files are neither listed nor digested.
"""

from __future__ import annotations

import hashlib
import os
import stat as modes
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from resource_server.documents.ranges import pread
from resource_server.errors import ResourceError, ResourceNotFound
from resource_server.provider import Path, Resource
from resource_server.provider.skills import SKILL_FILE, Skill, SkillFile
from resource_server.providers.filesystem.contained_root import Status
from resource_server.providers.filesystem.directory import WeightedLru, is_fresh
from resource_server.providers.filesystem.exposure.rules import DirectoryRules
from resource_server.providers.filesystem.file_tree import FileTree, NameRun, ResourceFactory
from resource_server.providers.filesystem.skills.frontmatter import (
    HEAD_BYTES,
    SkillProblem,
    read_frontmatter,
)

MAX_FILES = 512
"""Maximum documents of a skill (SEP-2640): no host must take more."""
MAX_SKILL_BYTES = 16 * 1024 * 1024
"""Maximum bytes of all documents of a skill (SEP-2640)."""
_MAX_RUNS = 4096
"""Maximum steps of the walk through one skill, most of them directories."""
_MAX_PROBLEMS = 100
"""Maximum skills whose problems are reported."""
_MAX_HEADS = 10_000
_ATTEMPTS = 3
"""How often a file that changes while it is read is read again."""
_SHORT_S = 0.01
"""A walk through the folder that takes no longer than this is made for every request."""
_REUSE = 20
"""The result of a longer walk is used for this multiple of its duration."""
_WAITING_SHARE = 0.1
"""How much of the time counts in which a walk waits for the disk, or for a busy machine."""
_BLOCK_BYTES = 1024 * 1024


class _Head(msgspec.Struct, frozen=True):
    """The beginning of a `SKILL.md` at one version: its frontmatter, or what is wrong with it."""

    version: str | None
    frontmatter: dict[str, Any]
    problem: str | None = None


class _OpenDocument(msgspec.Struct, frozen=True):
    """A document that is open for reading."""

    fd: int
    resource: Resource
    max_size: int
    is_cacheable: bool
    """Whether another change would alter its version."""
    current_version: Callable[[], str | None]


class FileDigest(msgspec.Struct, frozen=True, gc=False):
    """The SHA-256 digest of a document at one version; `size` counts the digested bytes."""

    version: str | None
    digest: str
    size: int


_Found = TypeVar("_Found", _Head, FileDigest)


class SkillIndex:
    """The skills of one view of a folder. Its methods block; any thread may call them.

    `root_name` returns the name that the folder itself has in URIs, for a `SKILL.md` at its top.
    """

    def __init__(
        self,
        tree: FileTree,
        factory: ResourceFactory,
        digests: WeightedLru[Path, FileDigest],
        root_name: Callable[[], str | None],
    ) -> None:
        self._tree = tree
        self._factory = factory
        self._digests = digests
        self._root_name = root_name
        self._heads: WeightedLru[Path, _Head] = WeightedLru(_MAX_HEADS, lambda _: 1)
        self._walking = threading.Lock()
        self._paths: Sequence[Path] = ()
        self._reused_until = 0.0

    # -- skills

    def page(self, after: Path | None, limit: int) -> list[Skill]:
        """Return up to `limit` valid, listed skills after the path `after`."""
        paths = self._candidates()
        found: list[Skill] = []
        for path in paths[bisect_right(paths, after) if after is not None else 0 :]:
            if len(found) >= limit:
                break
            try:
                if self._tree.find(path).rules.listed:
                    found.append(self._skill(path))
            except (ResourceNotFound, SkillProblem):
                continue
        return found

    def skill(self, path: Path) -> Skill:
        """Return the skill of a `SKILL.md`, listed or not.

        Raises:
            ResourceNotFound: it is absent, hidden or invalid.
        """
        if not path or path[-1] != SKILL_FILE:
            raise ResourceNotFound
        try:
            return self._skill(path)
        except SkillProblem:
            raise ResourceNotFound from None

    def problems(self) -> list[tuple[Path, str]]:
        """Return each `SKILL.md` that makes no skill, with the reason, for the operator."""
        found: list[tuple[Path, str]] = []
        for path in self._candidates():
            try:
                if not self._tree.find(path).rules.readable:
                    continue
                self._frontmatter(path)
                self._files(path)
            except SkillProblem as problem:
                found.append((path, str(problem)))
            except ResourceError:
                continue
            if len(found) >= _MAX_PROBLEMS:
                break
        return found

    def forget_walk(self) -> None:
        """Walk through the folder again for the next request: names in it have changed."""
        self._reused_until = 0.0

    def _candidates(self) -> Sequence[Path]:
        """Return the paths of all exposed documents of the name `SKILL.md`, in order."""
        with self._walking:
            if time.monotonic() >= self._reused_until:
                began, worked = time.monotonic(), time.thread_time()
                self._paths = sorted(self._walk())
                ended = time.monotonic()
                spent = max(time.thread_time() - worked, (ended - began) * _WAITING_SHARE)
                self._reused_until = ended + (0.0 if spent <= _SHORT_S else spent * _REUSE)
            return self._paths

    def _walk(self) -> Generator[Path]:
        top = self._tree.find(()).directory
        if top is None:
            return
        for run in self._tree.name_runs((), top, unlisted=True):
            if not run.is_directory and SKILL_FILE in run.names:
                yield (*run.path, SKILL_FILE)

    def _skill(self, path: Path) -> Skill:
        """Return a skill whose frontmatter and digest are of the same `SKILL.md`."""
        for _ in range(_ATTEMPTS):
            head = self._frontmatter(path)
            digests = dict(self._digested(path))
            own = digests.get(path)
            if own is not None and own.version == head.version:
                return Skill(
                    path,
                    head.frontmatter,
                    tuple(SkillFile(each, of.digest, of.size) for each, of in digests.items()),
                )
        raise SkillProblem("SKILL.md changes all the time")

    def _digested(self, path: Path) -> Generator[tuple[Path, FileDigest]]:
        total = 0
        for each in self._files(path):
            try:
                digest = _current(self._digests, each) or self._digest(each.path)
            except ResourceNotFound:
                continue  # removed meanwhile
            total += digest.size
            _check_total(total)
            yield each.path, digest

    def _files(self, path: Path) -> list[Resource]:
        """Return the documents of a skill, those in unlisted directories included.

        Raises:
            SkillProblem: they are over a limit, or one cannot be read whole.
        """
        entry = self._tree.find(path[:-1])
        if entry.directory is None:
            raise ResourceNotFound
        found: list[Resource] = []
        total = 0
        runs = self._tree.name_runs(entry.path, entry.directory, unlisted=True)
        with closing(runs):
            for count, run in enumerate(runs):
                if count >= _MAX_RUNS:
                    raise SkillProblem(f"it has more than {_MAX_RUNS:,} folders")
                if run.entry is None and len(found) + len(run.names) > MAX_FILES:
                    raise _too_many()
                for each in self._documents(run):
                    found.append(each)
                    total += each.size or 0
                if len(found) > MAX_FILES:
                    raise _too_many()
                _check_total(total)
        return found

    def _documents(self, run: NameRun) -> Generator[Resource]:
        """Yield the readable documents of a run of names."""
        if run.entry is not None:
            if run.entry.directory is None and run.entry.rules.readable:
                yield self._whole(run.entry.path, run.entry.stamp, run.entry.rules)
            return
        rules = run.directory.rules
        for name in run.names if rules.readable else ():
            try:
                status = os.stat(name, dir_fd=run.fd, follow_symlinks=False)
            except OSError:
                continue  # removed since the directory was read
            key = run.directory.prefix + name
            if modes.S_ISREG(status.st_mode) and not self._tree.is_withheld(key, status):
                yield self._whole((*run.path, name), status, rules)

    def _whole(self, path: Path, status: Status, rules: DirectoryRules) -> Resource:
        """Return a document that can be read whole, under a name that every host can write."""
        _check_size(path, status.st_size, rules.max_size)
        try:
            "".join(path).encode()
        except UnicodeError:
            raise SkillProblem(f"the path of the file {path[-1]!r} is not UTF-8") from None
        return self._factory.document(path, status, rules)

    # -- documents

    def described(self, resource: Resource) -> Resource:
        """Return the resource of a `SKILL.md` with the name and description of its skill."""
        if not resource.readable:
            return resource
        try:
            found = _current(self._heads, resource) or self._frontmatter(resource.path)
        except (ResourceError, SkillProblem):
            return resource
        if found.problem is not None:
            return resource
        return replace(
            resource,
            name=found.frontmatter["name"],
            description=found.frontmatter["description"],
        )

    def is_known(self, resource: Resource) -> bool:
        """Return whether `described` need not read the file."""
        return not resource.readable or _current(self._heads, resource) is not None

    def covers(self, path: Path) -> bool:
        """Return whether a document belongs to a skill: a read must return exactly its bytes."""
        for depth in range(len(path)):
            try:
                self._frontmatter((*path[:depth], SKILL_FILE))
            except (ResourceError, SkillProblem):
                continue
            return True
        return False

    def _frontmatter(self, path: Path) -> _Head:
        """Return the valid frontmatter of a `SKILL.md`.

        Raises:
            SkillProblem: it is not valid.
            ResourceNotFound: absent, hidden or not readable.
        """
        head = self._examined(path, self._heads, self._head_of)
        if head.problem is not None:
            raise SkillProblem(head.problem)
        return head

    def _head_of(self, opened: _OpenDocument) -> _Head:
        path, version = opened.resource.path, opened.resource.version
        name = path[-2] if len(path) > 1 else self._root_name()
        try:
            return _Head(version, read_frontmatter(pread(opened.fd, HEAD_BYTES, 0), name or ""))
        except SkillProblem as problem:
            return _Head(version, {}, str(problem))

    def _digest(self, path: Path) -> FileDigest:
        return self._examined(path, self._digests, _digest_of)

    def _examined(
        self,
        path: Path,
        cache: WeightedLru[Path, _Found],
        examine: Callable[[_OpenDocument], _Found],
    ) -> _Found:
        """Return what is found in a document as it is now.

        Of a document that changes all the time it is what was found last.
        """
        left = _ATTEMPTS
        while True:
            left -= 1
            with self._opened(path) as opened:
                found = _current(cache, opened.resource) or examine(opened)
                is_unchanged = opened.current_version() == found.version
                if is_unchanged and opened.is_cacheable:
                    cache.put(path, found)
                if is_unchanged or not left:
                    return found

    @contextmanager
    def _opened(self, path: Path) -> Generator[_OpenDocument]:
        """Open a document under the rules for reading."""
        entry = self._tree.find(path)
        if entry.directory is not None or not entry.rules.readable:
            raise ResourceNotFound
        fd, status = self._tree.root.open_file(tuple(entry.key.split("/")))
        try:
            if self._tree.is_withheld(entry.key, status):
                raise ResourceNotFound
            yield _OpenDocument(
                fd,
                self._factory.document(path, status, entry.rules),
                entry.rules.max_size,
                not is_fresh(status),
                lambda: self._factory.document(path, os.fstat(fd), entry.rules).version,
            )
        finally:
            os.close(fd)


def _current(cache: WeightedLru[Path, _Found], resource: Resource) -> _Found | None:
    found = cache.get(resource.path)
    return found if found is not None and found.version == resource.version else None


def _digest_of(opened: _OpenDocument) -> FileDigest:
    hashed, size = hashlib.sha256(), 0
    while block := pread(opened.fd, _BLOCK_BYTES, size):
        hashed.update(block)
        size += len(block)
        _check_total(size)
        _check_size(opened.resource.path, size, opened.max_size)
    return FileDigest(opened.resource.version, f"sha256:{hashed.hexdigest()}", size)


def _check_size(path: Path, size: int, max_size: int) -> None:
    if size > max_size:
        raise SkillProblem(f"{path[-1]!r} is larger than max_size ({max_size:,} bytes)")


def _check_total(size: int) -> None:
    if size > MAX_SKILL_BYTES:
        raise SkillProblem(f"it has more than {MAX_SKILL_BYTES // 2**20} MiB")


def _too_many() -> SkillProblem:
    return SkillProblem(f"it has more than {MAX_FILES} files")
