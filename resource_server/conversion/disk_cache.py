"""Conversions on disk, for the next start and for other processes: bounded, private, checked.

A file is complete or absent, and holds a digest of its content; whatever else lies in the folder is
neither read nor removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import stat
import threading
from pathlib import Path
from typing import Final

import msgspec

from resource_server.conversion.messages import Converted
from resource_server.conversion.pool import MAX_BYTES, Conversion
from resource_server.conversion.text_window import WindowPlace
from resource_server.runtime.private_folder import private_folder

SUFFIX: Final = ".mcp-conversion"
"""Ending of its files, which no root serves."""
MAX_CACHE_BYTES: Final = 256 * 1024 * 1024
_KEPT_SHARE: Final = 0.9
"""Share of the maximum that remains when the oldest files are removed."""
_MAX_FILE_BYTES: Final = 2 * MAX_BYTES
_FORMAT: Final = b"conversion 2\n"
_DIGEST_BYTES: Final = 16
_RESERVED: Final = "~"
"""Start of the names of files that are being written."""

_log = logging.getLogger(__name__)


class _Stored(msgspec.Struct, array_like=True):
    parts: list[Converted]
    is_cut: bool
    place: WindowPlace = WindowPlace()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


class DiskCache:
    """Conversions in a folder, by key. Any thread of any process may call any method.

    Nothing fails because of it: what cannot be read is not there, and what cannot be written is
    only logged, once.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._size: int | None = None
        """Bytes of all files when they were last counted, and of those written since."""
        self._has_failed = False

    def get(self, key: tuple[object, ...]) -> Conversion | None:
        """Return a conversion, or None if it is not there."""
        with (
            contextlib.suppress(OSError, ValueError, msgspec.MsgspecError),
            private_folder(self._folder) as at,
        ):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(_name(key), flags, dir_fd=at)
            with os.fdopen(fd, "rb") as file:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    return None
                data = file.read(_MAX_FILE_BYTES + 1)
                head = len(_FORMAT) + _DIGEST_BYTES
                if data[:head] != _FORMAT + _digest(data[head:]):
                    return None
                os.utime(fd)  # what is used last is removed last
                stored = _decode(memoryview(data)[head:])
                parts = tuple(each.part for each in stored.parts)
                return Conversion(parts, stored.is_cut, stored.place)
        return None

    def put(self, key: tuple[object, ...], conversion: Conversion) -> None:
        """Keep a conversion."""
        parts = [Converted.of(part) for part in conversion.parts]
        content = _encode(_Stored(parts, conversion.is_cut, conversion.place))
        data = _FORMAT + _digest(content) + content
        if len(data) > min(_MAX_FILE_BYTES, self._max_bytes):
            return
        try:
            with self._lock, private_folder(self._folder) as at:
                self._write(at, _name(key), data)
                self._shrink(at, len(data))
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _log.warning("converted documents cannot be kept in `cache`: %s", error.strerror)

    def _write(self, at: int, name: str, data: bytes) -> None:
        temporary = f"{_RESERVED}{secrets.token_hex(8)}{SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=at), "wb") as file:
                file.write(data)
            os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=at)
            raise

    def _shrink(self, at: int, written: int) -> None:
        """Remove the files that were used longest ago, if all are too large."""
        if self._size is not None and self._size + written <= self._max_bytes:
            self._size += written
            return
        files: list[tuple[float, int, str]] = []
        with os.scandir(at) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        files.append((status.st_mtime, status.st_size, entry.name))
        size = sum(each for _, each, _ in files)
        for _, each, name in sorted(files):
            if size <= self._max_bytes * _KEPT_SHARE:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=at)
            size -= each
        self._size = size


def _name(key: tuple[object, ...]) -> str:
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=20)
    return digest.hexdigest() + SUFFIX


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
