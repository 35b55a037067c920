"""The members of a ZIP or TAR archive as a tree: an example of a complete provider.

    providers:
      release:
        use: plugins/archive.py
        uri: archive://release/
        archive: dist/release.zip    # or a TAR: plain, gzip, bzip2 or xz; detected by content
        max_size: 10MiB              # larger members are read in ranges: ?bytes=0-65535

Nothing is extracted. Links, devices, encrypted members, and members whose names lead elsewhere
(absolute, `..`, backslashes) are hidden. When the archive is replaced on disk, the next request
reads the new one. While there are subscriptions, the file is polled once a second, and the members
that differ are reported: in a TAR, which has no checksums, all of them.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import stat
import struct
import sys
import tarfile
import zipfile
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import NamedTuple, Self

from anyio import CapacityLimiter, to_thread

from resource_server import media_types
from resource_server.provider import (
    ByteSize,
    Change,
    Content,
    Interest,
    InvalidParameter,
    MountUnavailable,
    NotACollection,
    Path,
    Provider,
    Resource,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
    SupportsComplete,
    SupportsWatch,
    Template,
    Truncation,
)

_MAX_SIZE = ByteSize(10 * 1024**2)
_MAX_UNPACKED = ByteSize(1024**3)
_RANGE = re.compile(r"(\d{1,18})-(\d{0,18})", re.ASCII)
_CHUNK = 64 * 1024
_MAX_DEPTH = 256
_MAX_NAME_BYTES = 4096


@dataclass
class Archive:
    """The files and directories of one archive; the fields are its manifest options."""

    archive: FilePath
    max_size: ByteSize = _MAX_SIZE
    """Maximum bytes of one read."""
    max_unpacked: ByteSize = _MAX_UNPACKED
    """Maximum bytes to unpack in order to find or read a member of a compressed archive."""
    max_members: int = 100_000
    """Maximum files and directories; a larger archive is refused."""
    hidden: bool = False
    """Whether to expose names that begin with a dot."""

    templates = (Template("{+path}", name="member", title="A file or directory of the archive"),)

    def __post_init__(self) -> None:
        if self.max_size < 1:
            raise ValueError("max_size: write at least 1")
        self._index: _Index | None = None
        # One thread at a time: many requests never build the index twice.
        self._indexing = CapacityLimiter(1)

    async def __aenter__(self) -> Self:
        await to_thread.run_sync(self._refresh, limiter=self._indexing)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._index = None

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the members of a directory, by name."""
        index = await self._current()
        names = index.directory(parent).names
        start = bisect_right(names, after[-1]) if after else 0
        return [index.resource((*parent, name)) for name in names[start : start + limit]]

    async def metadata(self, path: Path) -> Resource:
        """Return the metadata of a member, without unpacking it."""
        return (await self._current()).resource(path)

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Return a member, or its range `?bytes=first-last`; as text if it is UTF-8."""
        index = await self._current()
        member = index.find(path)
        if isinstance(member, _Directory):
            raise ResourceNotFound
        first, end = self._range(query, member)
        # Without the limiter of the index: a long read must not delay listings.
        body = await to_thread.run_sync(self._read, index, member, first, end - first)
        truncated = None
        if end - first < member.size:
            rest = {"bytes": f"{end}-{2 * end - first - 1}"} if end < member.size else None
            truncated = Truncation("requested", "bytes", total=member.size, next=rest)
        return [Content(body, truncated=truncated)]

    async def complete(
        self, variable: str, value: str, *, given: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the paths that begin with the typed text and end with its segment."""
        index = await self._current()
        *parent, typed = value.split("/")
        try:
            directory = index.directory(tuple(parent))
        except (ResourceNotFound, NotACollection):
            return []
        names = directory.names
        fitting = names[bisect_left(names, typed) : bisect_left(names, typed + "\U0010ffff")]
        return [
            "/".join((*parent, name)) + "/" * isinstance(directory.entries[name], _Directory)
            for name in fitting
        ]

    async def changes(self, interest: Interest) -> AsyncIterator[Change]:
        """Poll the file once a second while a client is interested."""
        index = self._index
        seen = index and index.identity
        while True:
            came, _ = await interest.next(1.0 if interest.paths or interest.listing else None)
            found = await to_thread.run_sync(self._look)
            if found != seen:
                seen, came = found, set(interest.paths)
                with suppress(ResourceBusy):
                    await self._current()
            for path in came:
                yield Change(path)
            before, index = index, self._index
            if index is not before:
                for path in await to_thread.run_sync(_relisted, before, index):
                    yield Change(path, "children")

    def _look(self) -> tuple[int, ...] | None:
        """Return the identity of the file; None if there is none."""
        try:
            return _identity(self.archive.stat())
        except OSError:
            return None

    def _range(self, query: Mapping[str, str], member: _Member) -> tuple[int, int]:
        """Return the first byte to read, and the end (exclusive)."""
        for name in query.keys() - {"bytes"}:
            raise InvalidParameter(f"unknown query parameter {name!r}; known: 'bytes'")
        if "bytes" not in query:
            if member.size > self.max_size:
                start = {"bytes": f"0-{self.max_size - 1}"}
                raise ResourceTooLarge(size=member.size, limit=self.max_size, next=start)
            return 0, member.size
        match = _RANGE.fullmatch(query["bytes"])
        first, last = (int(match[1]), int(match[2] or member.size)) if match else (0, -1)
        end = min(last + 1, member.size, first + self.max_size)
        if end <= first:
            raise InvalidParameter(f"bytes: not a range within {member.size} bytes, like 0-65535")
        if member.deflated and end > self.max_unpacked:
            raise InvalidParameter(f"bytes: only the first {self.max_unpacked} can be read")
        return first, end

    async def _current(self) -> _Index:
        """Return the index of the archive that is on disk now."""
        try:
            return await to_thread.run_sync(self._refresh, limiter=self._indexing)
        except MountUnavailable as error:
            raise ResourceBusy("the archive cannot be read now") from error

    def _refresh(self) -> _Index:
        try:
            identity = _identity(self.archive.stat())
            if self._index is None or self._index.identity != identity:
                self._index = _Index(self, self._index)
        except Exception as error:
            # For damaged archives, the standard library raises a dozen exception types.
            self._index = None
            problem = str(error) or type(error).__name__
            raise MountUnavailable(f"cannot serve the archive {self.archive}: {problem}") from error
        return self._index

    def _read(self, index: _Index, member: _Member, first: int, count: int) -> str | bytes:
        with self.archive.open("rb") as file:
            try:
                data = member.read(file, first, count)
            finally:
                if _identity(os.fstat(file.fileno())) != index.identity:
                    raise ResourceBusy("the archive is being replaced")
        whole = count == member.size
        if len(data) != count or (whole and member.crc not in (None, zlib.crc32(data))):
            raise OSError("a member of the archive is damaged")
        try:
            return data if b"\0" in data else data.decode("utf-8")
        except UnicodeDecodeError:
            return data


class _Index:
    """The members of an archive at one moment; built once in a worker thread, then read-only."""

    def __init__(self, options: Archive, before: _Index | None) -> None:
        self.replaces = before and before.identity
        self._name = options.archive.name
        self._root = _Directory({})
        if not options.archive.is_file():
            raise MountUnavailable("not a file")  # opening a FIFO would wait for its writer
        with options.archive.open("rb") as file:
            self.identity = _identity(os.fstat(file.fileno()))
            nodes = 0
            for name, member in _members(file, options):
                nodes += 1 + self._place(_path(name, hidden=options.hidden), member)
                if nodes > options.max_members:
                    raise MountUnavailable(f"more than max_members: {options.max_members}")
        self.version = hashlib.blake2b(repr(self.identity).encode(), digest_size=8).hexdigest()
        self._root.sort()

    def _place(self, path: Path, member: _Member | None) -> int:
        """Put a member or a directory into the tree; return the number of parents created.

        If several members have one name, the last one counts, as in an extraction.
        """
        directory, made = self._root, 0
        for segment in path[:-1] if member else path:
            child = directory.entries.get(segment)
            if not isinstance(child, _Directory):
                child = directory.entries[segment] = _Directory({})
                made += 1
            directory = child
        if path and member:
            directory.entries[path[-1]] = member
        return made

    def find(self, path: Path) -> _Member | _Directory:
        node: _Member | _Directory | None = self._root
        for segment in path:
            node = node.entries.get(segment) if isinstance(node, _Directory) else None
        if node is None:
            raise ResourceNotFound
        return node

    def directory(self, path: Path) -> _Directory:
        node = self.find(path)
        if not isinstance(node, _Directory):
            raise NotACollection
        return node

    def resource(self, path: Path) -> Resource:
        node = self.find(path)
        name = path[-1] if path else self._name
        if isinstance(node, _Directory):
            return Resource(path=path, name=name, type="collection", version=self.version)
        return Resource(
            path=path,
            name=name,
            mime_type=media_types.from_name(name),
            size=node.size,
            last_modified=node.modified,
            version=self.version if node.crc is None else f"{node.crc:08x}-{node.size:x}",
        )

    def paths(self, parent: Path = ()) -> Iterator[Path]:
        """Yield the paths below a directory."""
        directory = self.directory(parent)
        for name in directory.names:
            yield (*parent, name)
            if isinstance(directory.entries[name], _Directory):
                yield from self.paths((*parent, name))


def _relisted(before: _Index | None, after: _Index | None) -> Set[Path]:
    """Return the directories whose names differ; `()` if that is unknown."""
    if before is None or after is None or after.replaces != before.identity:
        return {()}
    return {path[:-1] for path in {*before.paths()} ^ {*after.paths()}}


@dataclass(slots=True)
class _Directory:
    entries: dict[str, _Member | _Directory]
    names: Sequence[str] = ()
    """Sorted by code points, after `sort`."""

    def sort(self) -> None:
        self.names = sorted(self.entries)
        for entry in self.entries.values():
            if isinstance(entry, _Directory):
                entry.sort()


class _Member(NamedTuple):
    """A file in the archive, with its position."""

    offset: int
    """The position of its header in a ZIP, or of its first byte in the unpacked TAR."""
    size: int
    modified: datetime | None
    crc: int | None = None
    """The checksum of the unpacked bytes; None in a TAR."""
    deflated: bool = False

    def read(self, archive: io.BufferedReader, first: int, count: int) -> bytes:
        """Return `count` bytes from `first`; fewer if the archive is damaged."""
        if self.crc is None:
            unpacked = _unpacked(archive)
            unpacked.seek(self.offset + first)
            return unpacked.read(count)
        archive.seek(self.offset + 26)
        name_size, extra_size = struct.unpack("<HH", archive.read(4))
        archive.seek(self.offset + 30 + name_size + extra_size)
        if self.deflated:
            return _inflate(archive, first, count)
        archive.seek(first, os.SEEK_CUR)
        return archive.read(count)


def _inflate(file: io.BufferedReader, first: int, count: int) -> bytes:
    """Return a range of the deflated stream that begins here; unpacks nothing beyond it."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    data = bytearray()
    while len(data) < count and not inflater.eof:
        packed = inflater.unconsumed_tail or file.read(_CHUNK)
        plain = inflater.decompress(packed, min(first, _CHUNK) or count - len(data))
        if not packed and not plain:
            break
        if first:
            first -= len(plain)
        else:
            data += plain
    return bytes(data)


def _unpacked(file: io.BufferedReader) -> io.BufferedIOBase:
    """Return the TAR in a file, decompressed while it is read."""
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if magic == b"\xfd7zXZ\0":
        return lzma.LZMAFile(file)
    return file


def _members(file: io.BufferedReader, options: Archive) -> Iterator[tuple[str, _Member | None]]:
    """Yield each name and member; None for a directory, the name `""` for a hidden member."""
    longest = options.max_members * 256  # zipfile reads a whole directory in one piece
    if file.peek(4).startswith((b"PK\3\4", b"PK\5\6")):
        return _zip_members(_Bounded(file, longest=longest))
    unpacked = _unpacked(file)
    end = options.max_unpacked if unpacked is not file else sys.maxsize
    return _tar_members(_Bounded(unpacked, longest=longest, end=end))


def _zip_members(file: _Bounded) -> Iterator[tuple[str, _Member | None]]:
    with file, zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            deflated = info.compress_type == zipfile.ZIP_DEFLATED
            stored = info.compress_type == zipfile.ZIP_STORED
            readable = deflated or (stored and info.compress_size == info.file_size)
            encrypted = info.flag_bits & 1
            plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
            # zipfile truncates a name at its NUL.
            if encrypted or not readable or not plain or "\0" in info.orig_filename:
                yield "", None
            elif info.is_dir():
                yield info.filename, None
            else:
                place = info.header_offset, info.file_size, _time(info.date_time)
                yield info.filename, _Member(*place, info.CRC, deflated)


def _tar_members(file: _Bounded) -> Iterator[tuple[str, _Member | None]]:
    archive = tarfile.TarFile(fileobj=file, encoding="utf-8", errors="surrogateescape")
    with file, archive:
        while (info := archive.next()) is not None:
            vars(archive)["members"].clear()  # tarfile keeps every member that it has read
            if info.isreg() and not info.issparse():
                yield info.name, _Member(info.offset_data, info.size, _time(info.mtime))
            else:
                yield info.name if info.isdir() else "", None
    if file.last.strip(b"\0"):
        # tarfile takes a damaged header for the end of the archive.
        raise tarfile.ReadError("a header is damaged")


class _Bounded(io.BufferedReader):
    """A file for the parsers, with bounds on a header's length and on positions, in bytes."""

    def __init__(self, file: io.BufferedIOBase, *, longest: int, end: int = sys.maxsize) -> None:
        super().__init__(file)
        self._longest, self._end = longest, end
        self.last = b""
        """The result of the last read."""

    def read(self, size: int | None = -1, /) -> bytes:
        most = self._longest + 1
        self.last = super().read(most if size is None or size < 0 else min(size, most))
        if len(self.last) == most or self.tell() > self._end:
            raise MountUnavailable("its headers are too long; see max_members and max_unpacked")
        return self.last

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_SET and offset > self._end:
            raise MountUnavailable("it is larger than max_unpacked")
        return super().seek(offset, whence)


def _path(name: str, *, hidden: bool) -> Path:
    """Return the path for a member's name; `()`, the archive's own, for a hidden name."""
    path = tuple(name.removeprefix("./").removesuffix("/").split("/"))
    if (
        len(path) > _MAX_DEPTH
        or len(name.encode("utf-8", "surrogateescape")) > _MAX_NAME_BYTES
        or not {"", ".", ".."}.isdisjoint(path)
        or re.search(r"^[A-Za-z]:|[\\\0]", name)
        or (not hidden and any(segment.startswith(".") for segment in path))
    ):
        return ()
    return path


def _time(when: Sequence[int] | float) -> datetime | None:
    """Convert a TAR's seconds, or a ZIP's date, which has no zone and is read as UTC."""
    try:
        if isinstance(when, Sequence):
            return datetime(*when, tzinfo=UTC)
        return datetime.fromtimestamp(when, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _identity(status: os.stat_result) -> tuple[int, ...]:
    # The change time reveals even a replacement of equal size and modification time.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# A type checker verifies the contract here.
_: type[Provider] = Archive
_completes: type[SupportsComplete] = Archive
_watches: type[SupportsWatch] = Archive
