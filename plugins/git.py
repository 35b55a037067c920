"""A git repository as trees of its revisions: an example of a provider by the whole contract.

    providers:
      history:
        use: plugins/git.py
        uri: git://project/
        repository: .         # a working copy or a bare repository

`branches/main`, `tags/v1.0` and `commits/20261124T130500Z-1a2b3c4d5e6f` hold the files at a
revision, `changes/20261124T130500Z-1a2b3c4d5e6f.diff` the message and the diff of a commit. The
branch `feature/x` is `feature:x`. No hooks, filters, helpers or transports run, whatever the
repository's own configuration says. Only what a branch or tag reaches is served, without symbolic
links and submodules.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from subprocess import DEVNULL, PIPE

import anyio

from resource_server import media_types, uris
from resource_server import provider as contract
from resource_server.provider import Change, Content, MountUnavailable, Path, Resource

_DIFF = ("diff-tree", "--root", "--diff-merges=first-parent", "--pretty=raw", "-p")
_LOG = ("rev-list", "--branches", "--tags", "--no-commit-header", "--abbrev=12")
_LINE = ("--date=format-local:%Y%m%dT%H%M%SZ", "--format=%H %cd-%h")
_MAX_LISTING = 64 * 1024**2
_SETTINGS = {
    "PATH": os.environ.get("PATH", os.defpath),
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what it lacks
}


@dataclass
class Git:
    """One repository; the fields are its manifest options."""

    repository: FilePath
    max_size: contract.ByteSize = contract.ByteSize(10 * 1024**2)
    """Larger files are listed but not readable; larger diffs are truncated."""
    max_commits: int = 1000
    """Number of the latest commits to serve."""

    templates = (contract.Template("branches/{branch}/{+path}", name="file of a branch"),)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the children of a collection by name, of commits the latest first."""
        found = {child.name: child for child in await self._children(parent)}
        is_latest_first = parent in (("commits",), ("changes",))
        if after and is_latest_first:
            found = {name: found[name] for name in found if name < after[-1]}
        elif after:
            found = {name: found[name] for name in found if name > after[-1]}
        return [found[name] for name in sorted(found, reverse=is_latest_first)[:limit]]

    async def metadata(self, path: Path) -> Resource:
        """Return the entry of a resource in its collection."""
        if not path:
            return Resource(path=(), name=self.repository.name or "git", type="collection")
        try:
            [found] = [child for child in await self._children(path[:-1]) if child.path == path]
        except (ValueError, contract.NotACollection):
            raise contract.ResourceNotFound from None
        return found

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return a file, as text if it is UTF-8, or a diff."""
        found = await self.metadata(path)
        if not found.readable or found.version is None or found.type == "collection":
            raise contract.ResourceNotFound
        for name in query:
            raise contract.InvalidParameter(f"unknown query parameter {name!r}")
        is_diff = path[0] == "changes"
        command = (*_DIFF, "--no-ext-diff", "--no-textconv") if is_diff else ("cat-file", "blob")
        data = await self._git(*command, found.version, limit=self.max_size)
        if is_diff:
            is_long = len(data) > self.max_size
            truncated = contract.Truncation("limit", "bytes") if is_long else None
            return [Content(data[: self.max_size].decode("utf-8", "replace"), truncated=truncated)]
        try:
            return [Content(data if b"\0" in data else data.decode())]
        except UnicodeDecodeError:
            return [Content(data)]

    async def changes(self, interest: contract.Interest) -> AsyncIterator[Change]:
        """Compare branches and tags every two seconds while a client is interested."""
        before = await self._git("for-each-ref")
        while True:
            is_watched = interest.paths or interest.listing
            came, _ = await interest.next(2.0 if is_watched else None)
            after = await self._git("for-each-ref")
            for change in [Change(path) for path in came]:
                yield change
            if before != after and (interest.paths or interest.listing):
                yield Change((), "tree")
            before = after

    async def _children(self, parent: Path) -> Sequence[Resource]:
        if not parent:
            return [_collection((name,)) for name in ("branches", "changes", "commits", "tags")]
        kind, *rest = parent
        if kind == "changes":
            found = {f"{name}.diff": commit for name, commit in (await self._revisions()).items()}
            if rest:
                raise contract.NotACollection if rest[0] in found else contract.ResourceNotFound
            return [
                Resource(path=(kind, name), name=name, mime_type="text/x-diff", version=found[name])
                for name in found
            ]
        namespace = {"branches": "refs/heads/", "tags": "refs/tags/", "commits": None}
        if kind not in namespace:
            raise contract.ResourceNotFound
        revisions = await self._revisions(namespace[kind])
        if not rest:
            return [_collection((kind, name), revisions[name]) for name in revisions]
        if rest[0] not in revisions:
            raise contract.ResourceNotFound
        return await self._entries(parent, f"{revisions[rest[0]]}:{'/'.join(rest[1:])}")

    async def _revisions(self, namespace: str | None = None) -> Mapping[str, str]:
        """Return the commits of branches or tags by their names, or the latest of all."""
        if namespace is None:
            log = await self._git(*_LOG, *_LINE, f"--max-count={self.max_commits}")
        else:
            log = await self._git("for-each-ref", "--format=%(objectname) %(refname)", namespace)
        pairs = [os.fsdecode(line).split(" ", 1) for line in log.splitlines()]
        return {name.removeprefix(namespace or "").replace("/", ":"): it for it, name in pairs}

    async def _entries(self, parent: Path, tree: str) -> Sequence[Resource]:
        try:
            kind = await self._git("cat-file", "-t", tree)
        except MountUnavailable:
            if tree.endswith(":"):
                return []  # a tag of something else than a commit
            raise contract.ResourceNotFound from None
        if kind != b"tree\n":
            raise contract.NotACollection
        found: list[Resource] = []
        for line in (await self._git("ls-tree", "-z", "-l", tree)).split(b"\0")[:-1]:
            words, _, encoded = line.partition(b"\t")
            mode, _, version, size = words.decode().split()
            path = (*parent, name := os.fsdecode(encoded))
            if uris.is_segment(name) and mode == "040000":
                found.append(_collection(path, version))
            elif uris.is_segment(name) and mode.startswith("100"):
                length = int(size) if size.isdigit() else None  # a missing object has none
                found.append(
                    Resource(
                        path=path,
                        name=name,
                        mime_type=media_types.from_name(name),
                        size=length,
                        version=version,
                        readable=length is not None and length <= self.max_size,
                    )
                )
        return found

    async def _git(self, *command: str, limit: int = _MAX_LISTING) -> bytes:
        """Return the output of a command, one byte more than `limit` at most."""
        inner = self.repository / ".git"
        folder = inner if await anyio.Path(inner).exists() else self.repository
        options = ("--no-optional-locks", "--no-replace-objects", "-c", "core.fsmonitor=")
        whole = ("git", *options, f"--git-dir={folder}", *command)
        data = bytearray()
        try:
            running = await anyio.open_process(
                whole, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=_SETTINGS
            )
        except OSError as error:
            raise MountUnavailable(f"git cannot be started: {error.strerror}") from error
        async with running as process:
            async for chunk in process.stdout or ():
                data += chunk
                if len(data) > limit:
                    process.kill()
                    return bytes(data[: limit + 1])
            if await process.wait():
                raise MountUnavailable(f"git {command[0]} failed in {folder.name}")
        return bytes(data)


def _collection(path: Path, version: str | None = None) -> Resource:
    return Resource(path=path, name=path[-1], type="collection", version=version)


_: type[contract.Provider] = Git
_watches: type[contract.SupportsWatch] = Git
