from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from resource_server.audit.audit_file import AuditFile
from resource_server.audit.chain import FIRST
from resource_server.audit.recorder import Recorder
from resource_server.audit.verification import verified
from tests.audit.records import ROTATE, SOON, entry, recorder_of, verdict
from tests.cases import for_each


@pytest.fixture
def path(tmp_path: Path) -> Path:
    recorder = recorder_of(tmp_path / "audit.jsonl")
    for number in range(8):
        recorder.record(entry(number))
    recorder.close()
    return tmp_path / "audit.jsonl"


def _edited(path: Path, edit: Callable[[list[bytes]], object]) -> str | None:
    lines = path.read_bytes().splitlines(keepends=True)
    copy = [*lines]
    edit(copy)
    path.write_bytes(b"".join(copy))
    found = verdict(path)
    path.write_bytes(b"".join(lines))
    return found.problem


def test_an_untouched_record_is_whole(path: Path) -> None:
    found = verdict(path)
    assert (found.problem, found.lines, found.notes) == (None, 10, [])


def _change(lines: list[bytes]) -> None:
    lines[3] = lines[3].replace(b"docs/2", b"docs/3")


def _remove(lines: list[bytes]) -> None:
    del lines[3]


def _swap(lines: list[bytes]) -> None:
    lines[3], lines[4] = lines[4], lines[3]


def _insert(line: bytes) -> Callable[[list[bytes]], None]:
    def insert(lines: list[bytes]) -> None:
        lines.insert(3, line or lines[2])

    return insert


@pytest.mark.guarantee("record-is-chained")
@for_each(
    "edit, number",
    [
        (_change, 5),
        (_remove, 4),
        (_insert(b""), 4),
        (_swap, 4),
        (_insert(b"{}\n"), 4),
        (_insert(b"\n"), 4),
        (_insert(b"\xff\xfe\n"), 4),
        (_insert(b"x" * 100_000 + b"\n"), 4),
    ],
    ids=["changed", "removed", "repeated", "swapped", "empty", "blank", "bytes", "long"],
)
def test_an_edited_line_is_found(
    path: Path, edit: Callable[[list[bytes]], object], number: int
) -> None:
    problem = _edited(path, edit)
    assert problem is not None
    assert problem.startswith(f"line {number} of audit.jsonl ")


def test_a_cut_at_the_end_is_not_found(path: Path) -> None:
    assert _edited(path, lambda lines: lines.pop()) is None


def test_a_line_without_its_end_is_noted(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])
    found = verdict(path)
    assert found.problem is None
    assert found.notes == [
        "line 10 of audit.jsonl is not complete, and the last: a crash, or a cut"
    ]


def test_a_file_that_is_missing_among_those_that_were_renamed_is_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(12):
        recorder = recorder_of(path, rotate=600, keep=9)
        recorder.record(entry(number))
        recorder.close()
    assert verdict(path).problem is None
    assert verdict(path, *sorted(tmp_path.glob("audit.jsonl.[0-9]"))).files == verdict(path).files
    (tmp_path / "audit.jsonl.3").unlink()
    problem = verdict(path).problem
    assert problem is not None
    assert problem.startswith("line 1 of audit.jsonl.2 does not follow the line before")
    assert verdict(tmp_path / "audit.jsonl.2").problem is None


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").touch()
    assert verdict(tmp_path / "audit.jsonl").first is None


def test_a_record_that_goes_on_in_another_file_says_so(path: Path) -> None:
    old = path.rename(path.with_name("old.jsonl"))
    recorder = recorder_of(path)
    recorder.close()
    alone = verdict(path)
    assert (alone.after, alone.notes) == (FIRST, [])  # nothing here tells of the other one
    path.unlink()
    old.rename(path)
    file = AuditFile(path, rotate=ROTATE, keep=3)
    path.rename(old)
    recorder = Recorder(file, last=file.last, timing=SOON)
    recorder.close()
    before, after = verified((old, path))
    assert after.after == before.hash
    assert after.notes[0] == "it goes on where old.jsonl ends"
    assert verdict(path).notes[0] == "what came before its first file is not here"
    assert verdict(old).hash == before.hash


def test_records_of_other_processes_beside_it_are_named(path: Path) -> None:
    with_number = path.with_name("audit.2.jsonl")
    first = AuditFile(path, rotate=ROTATE, keep=3)
    second = AuditFile(path, rotate=ROTATE, keep=3)
    assert second.name == with_number.name
    first.close()
    second.close()
    assert verdict(path).notes == ["not checked, of other processes: audit.2.jsonl"]
    assert verdict(with_number).notes == []
    assert [each.notes for each in verified((path, with_number))] == [[], []]
