"""Data files of a database, by their pattern: which tables they make, and when they change.

How they are read: `data_tables`.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from resource_server.errors import MountUnavailable
from resource_server.providers.database.engines.duckdb.messages import (
    LOGS,
    DataFile,
    DataTable,
    Open,
)

Kind: TypeAlias = Literal["parquet", "csv", "json", "sheets"]

_KINDS: Final[Sequence[tuple[str, Kind]]] = (
    (".parquet", "parquet"),
    (".csv", "csv"),
    (".tsv", "csv"),
    (".csv.gz", "csv"),
    (".tsv.gz", "csv"),
    (".jsonl", "json"),
    (".ndjson", "json"),
    (".jsonl.gz", "json"),
    (".ndjson.gz", "json"),
    (".xlsx", "sheets"),
    (".xls", "sheets"),
    (".ods", "sheets"),
)
SUFFIXES: Final = tuple(suffix for suffix, _ in _KINDS)
NO_FILE: Final = "no data file matches `url`"
MAX_FILES: Final = 1000
TOO_MANY_FILES: Final = f"more than {MAX_FILES} data files match `url`"
NO_DATA_FILE: Final = f"the data file has none of the names {', '.join(SUFFIXES)}"
_MAX_SEEN: Final = 100_000
"""Maximum number of paths that a pattern is compared with."""
WALK_SHARE: Final = 20
"""A pattern is compared with files for at most one part of this many of the time."""
_SETTLED_S: Final = 0.02
"""Age from which another write gives a file another time: kernels count it in steps."""
MAGIC: Final = re.compile(r"[*?\[]")

_FileState: TypeAlias = tuple[int, int, int, int, int]
State: TypeAlias = tuple[_FileState | None, ...]
"""Device, inode, size and times of each file, None if it is missing; equal for unchanged files."""


def kind_of(name: str) -> Kind | None:
    """Return how a file is read, by the end of its name; None if it is no data file."""
    lower = name.lower()
    return next((kind for suffix, kind in _KINDS if lower.endswith(suffix)), None)


class DatabaseSource:
    """A DuckDB database file, with the log of its last changes beside it."""

    walk_share = WALK_SHARE

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def look(self, *, is_open: bool) -> tuple[State, Open]:
        """Return the state of the file, and the message that opens it.

        Raises:
            MountUnavailable: there is no such file.
        """
        return self.state(), Open(self.path)

    def found(self) -> State:
        """Return the state of the file and its log. Raises as `look`."""
        return self.state()

    def state(self) -> State:
        """Return the state of the file and its log. Raises as `look`."""
        logs = [_optional_status(f"{self.path}{suffix}") for suffix in LOGS]
        return _status_of(_checked(self.path, "the database file")), *logs


class FilesSource:
    """The data files that match a pattern; each is a table, or all are the table `table`.

    `problems` are files that are left out before they are opened, each with the reason.
    """

    problems: Sequence[str] = ()
    walk_share = WALK_SHARE

    def __init__(self, pattern: str, table: str | None) -> None:
        self._pattern = os.path.abspath(pattern)
        self._table = table
        self._opened: Sequence[DataTable] = ()

    def look(self, *, is_open: bool) -> tuple[State, Open]:
        """Return the state of the files, and the message that opens them.

        With `is_open`, the last file may be gone, like any other: there are no tables then.

        Raises:
            MountUnavailable: no file matches, or too many do.
        """
        tables = self._tables(is_open=is_open)
        self._opened = tables
        return state_of_files(tables), Open(None, tuple(tables))

    def state(self) -> State:
        """Return the state of the files that were found last."""
        return state_of_files(self._opened)

    def found(self) -> State:
        """Return the state of the files that match now, or of none. Raises as `look`."""
        return state_of_files(self._tables(is_open=True))

    def _tables(self, *, is_open: bool) -> list[DataTable]:
        files = self.files()
        if not files:
            if is_open:
                return []
            raise MountUnavailable(NO_FILE)
        if len(files) > MAX_FILES:
            raise MountUnavailable(TOO_MANY_FILES)
        if self._table is not None:
            kinds: set[Kind] = {each.kind for each in _tables(files)}
            kind, *others = kinds
            if others or (kind == "sheets" and len(files) > 1):
                raise MountUnavailable("the files of one table must have one format, and no sheets")
            return [DataTable(self._table, kind, tuple(files))]
        return _tables(files)

    def close(self) -> None:
        """Give up what was kept of the files."""

    def files(self) -> Sequence[DataFile]:
        """Return the files that match, in order.

        Raises:
            MountUnavailable: the file is none to read.
        """
        parts = Path(self._pattern).parts
        fixed = next((n for n, part in enumerate(parts) if MAGIC.search(part)), len(parts) - 1)
        folder = os.path.realpath(os.path.join(*parts[:fixed]))
        if not MAGIC.search(self._pattern):
            path = os.path.realpath(self._pattern)
            if not os.path.exists(path):
                return []
            status = _checked(path, "the data file")
            if kind_of(path) is None:
                raise MountUnavailable(NO_DATA_FILE)
            return [data_file(path, os.path.basename(path), status)]
        found = list(_matching(Path(folder), os.path.join(*parts[fixed:])))
        return sorted(found, key=lambda file: file.path)


def settling_s(state: State) -> float:
    """Return the seconds until a write would give a file of this state another time."""
    newest = max((max(each[3:]) for each in state if each is not None), default=0)
    age = time.time() - newest / 1e9
    return max(0.0, _SETTLED_S - age) if age >= 0 else 0.0


def _status_of(status: os.stat_result) -> _FileState:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _checked(path: str, what: str) -> os.stat_result:
    """Return the status of a file that can be read.

    Raises:
        MountUnavailable: there is none.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise MountUnavailable(f"{what} does not exist") from None
    except (OSError, ValueError):
        raise MountUnavailable(f"{what} cannot be examined") from None
    if not stat.S_ISREG(status.st_mode):
        raise MountUnavailable(f"{what} is not a regular file")
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise MountUnavailable(f"{what} may not be read by this process")
    return status


def _optional_status(path: str) -> _FileState | None:
    try:
        return _status_of(os.stat(path))
    except OSError:
        return None


def state_of_files(tables: Sequence[DataTable]) -> State:
    """Return the state of the files of tables."""
    return tuple(_optional_status(file.path) for table in tables for file in table.files)


def data_file(path: str, name: str, status: os.stat_result) -> DataFile:
    """Return a file as the worker opens it, with its name below the folder of the pattern."""
    return DataFile(path, name, status.st_dev, status.st_ino, status.st_size)


def _matching(folder: Path, pattern: str) -> Iterator[DataFile]:
    """Yield the data files below a folder that match; never through a symbolic link."""
    root = str(folder)
    seen = 0
    for path in folder.glob(pattern):
        seen += 1
        if seen > _MAX_SEEN:
            raise MountUnavailable("`url` has to be compared with too many files")
        name = str(path)
        if kind_of(name) is None or any(
            part.startswith(".") for part in path.parts[len(folder.parts) :]
        ):
            continue
        try:
            status = os.lstat(name)
        except OSError:
            continue
        inside = os.path.realpath(name) == name and name.startswith(os.path.join(root, ""))
        if stat.S_ISREG(status.st_mode) and inside:
            yield data_file(name, os.path.relpath(name, root).replace(os.sep, "/"), status)


def _tables(files: Sequence[DataFile]) -> list[DataTable]:
    """Return a table for each file, named like it; with its suffix if another is named so, too."""
    stems = [stem(file.name) for file in files]
    counts = Counter(each.casefold() for each in stems)
    found: list[DataTable] = []
    for file, short in zip(files, stems, strict=True):
        kind = kind_of(file.name)
        is_alone = counts[short.casefold()] == 1
        if kind is not None:
            found.append(DataTable(short if is_alone else file.name, kind, (file,)))
    return found


def stem(name: str) -> str:
    """Return the name of a data file without its suffix."""
    suffix = max((each for each in SUFFIXES if name.lower().endswith(each)), key=len)
    return name[: -len(suffix)] or name
