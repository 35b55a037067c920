"""A git repository as trees of its revisions: an example of a provider by the whole contract.

    providers:
      history:
        use: plugins/git.py
        uri: git://project/
        repository: .         # a working copy or a bare repository

`branches/main`, `tags/v1.0` and `commits/20261124T130500Z-1a2b3c4d5e6f` hold the files at a
revision, without symbolic links and submodules. The branch `feature/x` is `feature:x`. Only what
a branch or the tag of a commit reaches is served. No hooks, filters, helpers or transports run,
whatever the repository's own configuration says.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from subprocess import DEVNULL

import anyio

from resource_server import media_types, uris
from resource_server import provider as contract
from resource_server.provider import Change, Content, MountUnavailable, Path, Resource

# Revisions are printed as `ls-tree -l` prints a folder: mode, type, id, size, a tab, and the name.
_REFS = ("for-each-ref", "--format=040000 tree %(tree)%(*tree) -%09%(refname:lstrip=2)%00")
_LINE = ("--date=format-local:%Y%m%dT%H%M%SZ", "--format=040000 tree %T -%x09%cd-%h%x00")
_LOG = ("rev-list", "--branches", "--tags", "-n1000", "--no-commit-header", "--abbrev=12", *_LINE)
_KINDS = {"branches": (*_REFS, "refs/heads"), "commits": _LOG, "tags": (*_REFS, "refs/tags")}
# Folders and files, not links, submodules and tags without a tree; `\n` ends lines of revisions.
_ENTRY = re.compile(r"\n?(040000|100\d+) \w+ (\w+) +(\S+)\t(.+)", re.DOTALL)
_SAFE = ("--no-optional-locks", "--no-replace-objects", "-c", "core.fsmonitor=")
_ENV = {
    "PATH": os.environ.get("PATH", os.defpath),
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what it lacks
}
_MAX_LISTING_BYTES = 64 * 1024**2


@dataclass
class Git:
    """One repository; the fields are its manifest options."""

    repository: FilePath
    max_size: contract.ByteSize = contract.ByteSize(10 * 1024**2)
    """Larger files are listed but not readable."""

    templates = (contract.Template("branches/{branch}/{+path}", name="file of a branch"),)
    timeout_s = 15.0  # of one git command

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the children of a collection by name, of commits the latest first."""
        children = await self._children(await self.metadata(parent))
        names = [name for name in children if after is None or name > after[-1]]
        if parent == ("commits",):
            names = [name for name in children if after is None or name < after[-1]]
        names.sort(reverse=parent == ("commits",))
        return [children[name] for name in names[:limit]]

    async def metadata(self, path: Path) -> Resource:
        """Return the entry of a resource, which is looked up from the mount downwards."""
        found = Resource(path=(), name=self.repository.name or "git", type="collection")
        for name in path:
            try:
                found = (await self._children(found))[name]
            except (KeyError, contract.NotACollection):
                raise contract.ResourceNotFound from None
        return found

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return a file, as text if it is UTF-8."""
        found = await self.metadata(path)
        if found.type == "collection" or not found.readable:
            raise contract.ResourceNotFound
        for name in query:
            raise contract.InvalidParameter(f"unknown query parameter {name!r}")
        data = await self._git("cat-file", "blob", str(found.version), limit=self.max_size)
        try:
            return [Content(data if b"\0" in data else data.decode())]
        except UnicodeDecodeError:
            return [Content(data)]

    async def changes(self, interest: contract.Interest) -> AsyncIterator[Change]:
        """Compare branches and tags every two seconds while a client is interested."""
        before = await self._git("for-each-ref")
        while True:
            came, _ = await interest.next(2.0 if interest.paths or interest.listing else None)
            after = await self._git("for-each-ref")
            for path in came:
                yield Change(path)
            if before != after:
                yield Change((), "tree")
            before = after

    async def _children(self, parent: Resource) -> Mapping[str, Resource]:
        """Return the children of a collection by name."""
        if parent.type == "document":
            raise contract.NotACollection
        if not parent.path:
            return {kind: Resource(path=(kind,), name=kind, type="collection") for kind in _KINDS}
        command = ("ls-tree", "-z", "-l", parent.version) if parent.version else _KINDS[parent.name]
        listing = os.fsdecode(await self._git(*command))
        entries = [_ENTRY.fullmatch(line) for line in listing.split("\0")]
        found = [self._entry(parent.path, *entry.groups()) for entry in entries if entry]
        return {child.name: child for child in found if uris.is_segment(child.name)}

    def _entry(self, parent: Path, mode: str, version: str, digits: str, name: str) -> Resource:
        path = (*parent, name := name.replace("/", ":"))
        if mode == "040000":
            return Resource(path=path, name=name, type="collection", version=version)
        mime_type = media_types.from_name(name)
        size = int(digits) if digits.isdigit() else None  # a missing object has none
        readable = size is not None and size <= self.max_size
        return Resource(
            path=path, name=name, mime_type=mime_type, size=size, version=version, readable=readable
        )

    async def _git(self, *command: str, limit: int = _MAX_LISTING_BYTES) -> bytes:
        """Return the output of a command, at most `limit` bytes, or raise MountUnavailable."""
        inner = self.repository / ".git"
        folder = inner if await anyio.Path(inner).exists() else self.repository
        whole = ("git", *_SAFE, f"--git-dir={folder}", *command)
        data = bytearray()
        try:
            with anyio.fail_after(self.timeout_s):
                process = await anyio.open_process(whole, env=_ENV, stdin=DEVNULL, stderr=DEVNULL)
                async with process:
                    async for chunk in process.stdout or ():
                        data += chunk
                        if len(data) > limit:
                            process.kill()
                            raise MountUnavailable(f"git {command[0]} printed too much")
                    if await process.wait():
                        raise MountUnavailable(f"git {command[0]} failed in {folder.name}")
        except OSError as error:
            raise MountUnavailable(f"git {command[0]} failed: {type(error).__name__}") from error
        return bytes(data)


_: type[contract.Provider] = Git
_watches: type[contract.SupportsWatch] = Git
