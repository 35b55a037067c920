"""Data files in object storage, fetched into a folder from which DuckDB reads them.

The process that runs DuckDB reaches no network. Copies are compared with the bucket each interval;
where that has failed for two, they are removed.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Final

from resource_server.buckets.bucket import MAX_KEYS, Bucket, KeyPage, StoredObject
from resource_server.buckets.failures import Replaced
from resource_server.buckets.location import is_name, parse_location
from resource_server.buckets.transport import Deadline
from resource_server.errors import (
    MountUnavailable,
    ResourceError,
    ResourceNotFound,
    ResourceUnreadable,
)
from resource_server.providers.database.engines.duckdb.data_sources import (
    MAGIC,
    MAX_FILES,
    NO_DATA_FILE,
    SUFFIXES,
    TOO_MANY_FILES,
    FilesSource,
    data_file,
    kind_of,
)
from resource_server.providers.database.engines.duckdb.messages import DataFile
from resource_server.providers.database.options import StorageOptions

_MAX_PAGES: Final = 20
"""Maximum requests of one listing: 20,000 keys."""
_PART_BYTES: Final = 8 * 1024**2
"""Maximum bytes of one request, which has a deadline."""
_FETCHERS: Final = 8
_WAIT_S: Final = 1.0
"""Time to wait for the look of another thread."""
_FETCH_S: Final = 120.0
"""Time to fetch what a listing has found, while what was fetched before is served."""
_RETRY_S: Final = 5.0
"""Pause after a listing or a fetch that failed."""
_FOLDER: Final = "resource-server-objects-"
_NEW: Final = "resource-server-new-"
_FETCHED_NOW: Final = "the data files are being fetched; try again in a moment"
_REFUSED: Final = "the storage service refuses it"
_REPLACED: Final = "a data file is replaced while it is fetched; try again"


class ObjectFiles(FilesSource):
    """The objects that match a pattern, as data files.

    A look waits for the service where what was fetched last is too old; otherwise it has that
    compared with the bucket in a thread.

    Args:
        url: the bucket and the pattern, as in `s3://bucket/sales/*.parquet`.
        table: the table that all of them make; None if each makes one.
        storage: the service, and what of it may be fetched.
        interval: seconds between two listings.
    """

    walk_share = 1
    """It bounds its looks itself."""

    def __init__(
        self, url: str, table: str | None, storage: StorageOptions, interval: float
    ) -> None:
        super().__init__(url, table)
        location = parse_location(url)
        self._keys = location.prefix.removesuffix("/")
        begin = MAGIC.split(self._keys, maxsplit=1)[0]
        self._begin = begin.rpartition("/")[0] if begin == self._keys else begin
        """What all keys begin with."""
        folder = begin.rpartition("/")[0]
        self._above = f"{folder}/" if folder else ""
        """What the names of files leave out."""
        self._bucket = Bucket(
            location._replace(prefix=self._begin),
            endpoint=storage.endpoint,
            region=storage.region,
            profile=storage.profile,
            anonymous=storage.anonymous,
            connections=_FETCHERS,
        )
        self._max_bytes = storage.max_size
        self._interval = interval
        self._lock = threading.Lock()
        self._folder: _Folder | None = None
        self._problem = _FETCHED_NOW
        self._due = 0.0

    def files(self) -> Sequence[DataFile]:
        """Return the copies of the objects that match. See `FilesSource.files`."""
        folder = self._folder
        if time.monotonic() >= self._due:
            if folder is None or not folder.is_fresh:
                if not self._lock.acquire(timeout=_WAIT_S):
                    raise MountUnavailable(_FETCHED_NOW)
                self._synchronise(self._folder or _Folder())
            elif self._lock.acquire(blocking=False):
                threading.Thread(target=self._synchronise, args=(folder,), daemon=True).start()
        folder = self._folder
        if folder is None or not folder.is_fresh:
            self._remove()  # nobody reads what is too old
            raise MountUnavailable(self._problem)
        return folder.files

    @property
    def watched_by(self) -> str:
        """How changes are found, for the operator."""
        return f"poll every {self._interval:g} s (a request for each {MAX_KEYS:,} keys)"

    @property
    def storage_counts(self) -> tuple[int, int, int]:
        """The numbers of requests, of those that failed, and of bytes received."""
        return self._bucket.counts

    def close(self) -> None:
        """Remove the copies."""
        self._remove()
        self._due = 0.0
        self._bucket.close()

    def _remove(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    def _synchronise(self, folder: _Folder) -> None:
        """Make the copies those of the objects that match now; ends the hold of the lock."""
        self._folder = folder
        due = time.monotonic() + min(_RETRY_S, self._interval)
        problem = _FETCHED_NOW
        try:
            found = self._listed()
            if folder.is_fresh:
                folder.fresh_until = time.monotonic() + 2 * self._interval + _FETCH_S
            self._fetch(folder, found)
            folder.fresh_until = time.monotonic() + 2 * self._interval
            if found:
                due = time.monotonic() + self._interval
        except (MountUnavailable, ResourceError) as error:
            problem = str(error)
        except Replaced:
            problem = _REPLACED
        except OSError as error:
            problem = f"no copies of the data files can be kept ({error.strerror})"
        finally:
            if self._folder is folder:  # otherwise it was closed meanwhile
                self._due, self._problem = due, problem
            self._lock.release()

    def _listed(self) -> dict[str, StoredObject]:
        """Return the objects that match, by their keys.

        Raises:
            MountUnavailable: they are too many or too large, or none can be a data file.
            ResourceError: the service fails.
        """
        found: dict[str, StoredObject] = {}
        has_others = False
        token: str | None = None
        for _ in range(_MAX_PAGES):
            page = Deadline().run(lambda _, token=token: self._page(token))
            for key, stored in page.entries:
                if stored is None or not self._matches(key):
                    continue
                if kind_of(key) is None:
                    has_others = True
                else:
                    found[key] = stored
            token = page.token
            if token is None:
                break
        else:
            raise MountUnavailable(
                f"`url` has to be compared with more than {_MAX_PAGES * MAX_KEYS:,} keys; write "
                "more of the key before its first '*'"
            )
        if has_others and not found and not MAGIC.search(self._keys):
            raise MountUnavailable(NO_DATA_FILE)
        if len(found) > MAX_FILES:
            raise MountUnavailable(TOO_MANY_FILES)
        size = sum(each.size for each in found.values())
        if size > self._max_bytes:
            raise MountUnavailable(
                f"the data files have {size:,} bytes, and {self._max_bytes:,} are fetched at "
                "most; write a narrower pattern, or raise `storage.max_size`"
            )
        return found

    def _page(self, token: str | None) -> KeyPage:
        is_deep = "/" in self._keys[len(self._begin) :]
        return self._bucket.page(self._begin, limit=MAX_KEYS, token=token, is_deep=is_deep)

    def _matches(self, key: str) -> bool:
        names = key.split("/")
        is_served = all(map(is_name, names)) and not any(
            name.startswith(".") for name in key[len(self._above) :].split("/")
        )
        return is_served and _matches(names, self._keys.split("/"))

    def _fetch(self, folder: _Folder, found: dict[str, StoredObject]) -> None:
        """Fetch the objects that are new or replaced, and remove the copies of others.

        Raises:
            MountUnavailable, ResourceError, Replaced, OSError: one of them cannot be fetched.
        """
        copies = folder.copies

        def fetch(key: str) -> None:
            stored = found[key]
            if key not in copies or copies[key][0] != stored.etag:
                copies[key] = stored.etag, self._fetched(folder, key, stored)

        with ThreadPoolExecutor(_FETCHERS) as threads:
            list(threads.map(fetch, found))
        for key in copies.keys() - found.keys():
            del copies[key]
        made = [(key[len(self._above) :], copies[key][1]) for key in sorted(copies)]
        self.problems = [
            f"a data file is left out: {name}: {_REFUSED}" for name, file in made if file is None
        ]
        folder.keep([file for _, file in made if file is not None])

    def _fetched(self, folder: _Folder, key: str, stored: StoredObject) -> DataFile | None:
        """Return a copy of an object, made of parts of the same one; None if it is refused."""
        with folder.new_file(key) as file:
            try:
                for first in range(0, stored.size, _PART_BYTES):
                    last = min(first + _PART_BYTES, stored.size) - 1
                    read = partial(self._part, key, stored.etag, first, last)
                    file.write(Deadline().run(read))
            except ResourceUnreadable:
                return None
            except ResourceNotFound:
                raise Replaced from None
            status = os.fstat(file.fileno())
        return data_file(file.name, key[len(self._above) :], status)

    def _part(self, key: str, etag: str, first: int, last: int, deadline: Deadline) -> bytes:
        _, body = self._bucket.get(key, etag=etag, first=first, last=last)
        return self._bucket.read(body, last - first + 1, deadline)


def _matches(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether the segments of a key match those of a pattern, as paths of a folder do."""
    if not patterns or not names:
        return not patterns and not names
    if patterns[0] == "**":
        return any(_matches(names[at:], patterns[1:]) for at in range(len(names)))
    return fnmatchcase(names[0], patterns[0]) and _matches(names[1:], patterns[1:])


class _Folder:
    """A folder of copies, which no other user of this machine reads.

    Folders of processes that were killed are removed by the next one: they are not locked.
    """

    def __init__(self) -> None:
        made = tempfile.mkdtemp(prefix=_NEW)
        self._lock = _locked(made)
        self._path = Path(made.replace(_NEW, _FOLDER))
        Path(made).rename(self._path)  # only now: unlocked, it would be removed
        self._numbers = itertools.count()
        self.copies: dict[str, tuple[str, DataFile | None]] = {}
        """The ETag of each object, and its copy, or None if the service refuses it."""
        self.files: Sequence[DataFile] = ()
        self.fresh_until = 0.0
        for each in self._path.parent.glob(f"{_FOLDER}*"):
            with suppress(OSError):
                os.close(_locked(str(each)))
                shutil.rmtree(each)

    @property
    def is_fresh(self) -> bool:
        """Whether the files are compared with the bucket often enough."""
        return time.monotonic() < self.fresh_until

    def new_file(self, key: str) -> FileIO:
        """Return a new file, whose name ends as the key does."""
        suffix = max((each for each in SUFFIXES if key.lower().endswith(each)), key=len)
        return FileIO(str(self._path / f"{next(self._numbers)}{suffix}"), "x")

    def keep(self, files: Sequence[DataFile]) -> None:
        """Serve these files, and remove the others."""
        self.files = files
        paths = {file.path for file in files}
        for each in self._path.iterdir():
            if str(each) not in paths:
                each.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._lock)


def _locked(path: str) -> int:
    """Return a descriptor that locks a folder.

    Raises:
        OSError: another process has the lock, or the folder is another user's.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise PermissionError
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd
