"""The check of a record: whether its lines still follow each other, and where they do not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from resource_server.audit import chain
from resource_server.audit.audit_file import names_of

_MAX_LINE = 16 * 1024 * 1024
"""Bytes of a line, at most; no line of a record is nearly as long."""
_ROTATED = re.compile(r"(.*)\.([1-9][0-9]{0,5})")

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Verdict(msgspec.Struct):
    """What the check of one record has found."""

    record: str
    """Name of its file."""
    files: Sequence[str] = ()
    """Its files, oldest first."""
    lines: int = 0
    """Lines that follow each other."""
    first: str | None = None
    """Time of the first line."""
    last: str | None = None
    """Time of the last line."""
    after: str = chain.FIRST
    """Hash of the line before the first one."""
    hash: str = chain.FIRST
    """Hash of the last line that follows: kept elsewhere, it shows a later cut."""
    break_file: str | None = None
    break_line: int | None = None
    problem: str | None = None
    """Where the chain breaks, in words; None if it does not."""
    notes: list[str] = []
    """What the record tells of itself."""


def files_of(paths: Iterable[Path]) -> Mapping[Path, Sequence[Path]]:
    """Return the files of each record, oldest first, by the path of the current one.

    Those that were rotated belong to it, whether they are named or not.
    """
    found: dict[Path, set[int]] = {}
    for path in paths:
        match = _ROTATED.fullmatch(path.name)
        is_rotated = match is not None and path.exists()
        base = path.with_name(match[1]) if match is not None and is_rotated else path
        numbers = found.setdefault(base, set())
        numbers.add(int(match[2]) if match is not None and is_rotated else 0)
    return {base: [*_ordered(base, numbers)] for base, numbers in found.items()}


def verified(paths: Iterable[Path]) -> Sequence[Verdict]:
    """Return what is found in each record; one may go on where another ends.

    Raises:
        OSError: a file cannot be read.
    """
    records = files_of(paths)
    found = [Verifier(base.name).check(files) for base, files in records.items()]
    for base, verdict in zip(records, found, strict=True):
        beside = [base.with_name(name) for name in names_of(base.name)[1:]]
        if others := [each.name for each in beside if each not in records and each.exists()]:
            verdict.notes.append(f"not checked, of other processes: {', '.join(others)}")
    ends = {each.hash: each.record for each in found if each.lines}
    for verdict in found:
        if verdict.after in ends:
            verdict.notes.insert(0, f"it goes on where {ends[verdict.after]} ends")
        elif verdict.after != chain.FIRST:
            verdict.notes.insert(0, "what came before its first file is not here")
    return found


def _ordered(base: Path, numbers: set[int]) -> Iterator[Path]:
    if 0 in numbers:
        for path in base.parent.glob("*"):
            match = _ROTATED.fullmatch(path.name)
            if match is not None and match[1] == base.name and path.is_file():
                numbers.add(int(match[2]))
    for number in sorted(numbers, reverse=True):
        yield base if number == 0 else base.with_name(f"{base.name}.{number}")


class Verifier:
    """Checks one record, line by line."""

    def __init__(self, record: str) -> None:
        self.verdict = Verdict(record)
        self._last: str | None = None
        """Hash of the last whole line."""
        self._torn: tuple[str, int] | None = None
        """Place of a line that has no end, until the next one explains it."""
        self._file = ""
        self._number = 0

    def check(self, files: Sequence[Path]) -> Verdict:
        """Return what is found in all files.

        Raises:
            OSError: one of them cannot be read.
        """
        self.verdict.files = [each.name for each in files]
        for path in files:
            self._file, self._number = path.name, 0
            with path.open("rb") as lines:
                while data := lines.readline(_MAX_LINE):
                    self._number += 1
                    self._take(data)
                    if self.verdict.problem is not None:
                        return self.verdict
        if self._torn is not None:
            file, number = self._torn
            self._note(f"line {number} of {file} is not complete, and the last: a crash, or a cut")
        return self.verdict

    def _take(self, data: bytes) -> None:
        line = data.removesuffix(b"\n")
        link = chain.link_of(line)
        event = self._decoded(line)
        if self._torn is not None:
            file, number = self._torn
            if event.get("event") != "torn" or link is None:
                self._break(file, number, "is not of the server, or was changed")
                return
            self._torn = None
        if link is None:
            self._torn = self._file, self._number
            return
        if self._last is None:
            self.verdict.after = link
        elif link != self._last:
            what = "does not follow the line before: one of the two was changed, or lines between "
            self._break(self._file, self._number, f"{what}them are missing")
            return
        self._last = self.verdict.hash = chain.digest(line)
        self.verdict.lines += 1
        self._tell(event)

    def _decoded(self, line: bytes) -> Mapping[str, Any]:
        try:
            return _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}

    def _tell(self, event: Mapping[str, Any]) -> None:
        time = str(event.get("time"))
        self.verdict.first = self.verdict.first or time
        self.verdict.last = time
        size, at = event.get("bytes"), f"at {time}"
        match event.get("event"):
            case "dropped":
                why = event.get("why")
                self._note(f"{event.get('lines')} requests have no line, {at}: {why}")
            case "torn":
                self._note(f"a line was not written to its end ({size} bytes), {at}")
            case "moved":
                self._note(f"another program has renamed or removed the file, {at}")
            case "cut":
                self._note(f"another program has removed {size} bytes, {at}")
            case "foreign":
                self._note(f"another program has written {size} bytes, {at}")
            case _:
                pass

    def _note(self, text: str) -> None:
        self.verdict.notes.append(text)

    def _break(self, file: str, number: int, what: str) -> None:
        self.verdict.break_file, self.verdict.break_line = file, number
        self.verdict.problem = f"line {number} of {file} {what}"
