from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from resource_server.audit.audit_file import AuditFile, UnusableFile
from tests.audit.records import ROTATE, entry, events, lines, recorder_of, verdict


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def _open(path: Path) -> AuditFile:
    return AuditFile(path, rotate=ROTATE, keep=3)


def _record(path: Path, *numbers: int, rotate: int = ROTATE, keep: int = 3) -> None:
    recorder = recorder_of(path, rotate=rotate, keep=keep)
    for number in numbers:
        recorder.record(entry(number))
    recorder.close()


def _uris(path: Path) -> list[str]:
    return [each["uri"] for each in lines(path) if "uri" in each]


def test_a_file_is_made_for_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        _record(path, 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_restart_continues_the_chain(path: Path) -> None:
    _record(path, 1)
    _record(path, 2)
    assert events(path) == ["started", "ended", "started", "ended"]
    assert verdict(path).problem is None
    assert verdict(path).lines == 6


def test_a_line_that_a_crash_has_torn_is_told_and_kept(path: Path) -> None:
    _record(path, 1)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[1][:50])
    _record(path, 2)
    assert events(path) == ["started", "ended", "torn", "started", "ended"]
    assert next(each for each in lines(path) if each.get("event") == "torn")["bytes"] == 50
    found = verdict(path)
    assert found.problem is None
    assert any("not written to its end (50 bytes)" in note for note in found.notes)


def test_a_line_that_lacks_only_its_end_is_whole(path: Path) -> None:
    _record(path, 1)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    _record(path, 2)
    assert "torn" not in events(path)
    assert verdict(path).lines == 6


def test_a_file_that_is_torn_in_its_first_line_is_continued(path: Path) -> None:
    path.write_bytes(b'{"time":"2026-')
    _record(path, 1)
    assert events(path) == ["torn", "started", "ended"]
    assert verdict(path).problem is None


@pytest.mark.guarantee("reads-are-recorded")
def test_what_is_no_plain_file_of_this_user_is_refused(path: Path, tmp_path: Path) -> None:
    def refusal() -> str:
        with pytest.raises(UnusableFile) as refused:
            _open(path)
        return str(refused.value)

    os.mkfifo(path)
    assert "no regular file" in refusal()
    path.unlink()
    path.mkdir()
    assert "is a directory" in refusal()
    path.rmdir()
    other = tmp_path / "other"
    other.write_text("kept")
    path.symlink_to(other)
    assert "symbolic link" in refusal()
    assert other.read_text() == "kept"
    path.unlink()
    path.touch()
    path.chmod(0o666)
    assert "by others" in refusal()
    path.chmod(0o600)
    _open(path).close()


def test_a_lock_that_is_a_symbolic_link_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl.lock").symlink_to(tmp_path / "other")
    with pytest.raises(UnusableFile, match="symbolic link"):
        _open(path)


def test_a_device_is_refused() -> None:
    with pytest.raises(UnusableFile):
        _open(Path("/dev/full"))


def test_a_file_that_is_no_record_is_not_appended_to(path: Path) -> None:
    path.write_text("# Notes\nof mine\n")
    with pytest.raises(UnusableFile, match="no record of this server; name a new file"):
        _open(path)
    path.write_text("no line end")
    with pytest.raises(UnusableFile, match="no record"):
        _open(path)
    assert path.read_text() == "no line end"


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="its folder cannot be opened: no such file"):
        _open(tmp_path / "none" / "audit.jsonl")


@pytest.mark.guarantee("reads-are-recorded")
def test_processes_write_beside_each_other(path: Path) -> None:
    first, second = _open(path), _open(path)
    assert (first.name, second.name) == ("audit.jsonl", "audit.2.jsonl")
    first.close()
    third = _open(path)
    assert third.name == "audit.jsonl"
    second.close()
    third.close()


def test_files_are_rotated_by_size_and_the_oldest_goes(path: Path) -> None:
    for number in range(12):
        _record(path, number, rotate=600, keep=3)
    names = sorted(each.name for each in path.parent.glob("audit.jsonl*"))
    assert names == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
        "audit.jsonl.3",
        "audit.jsonl.lock",
    ]
    found = verdict(path)
    assert found.problem is None
    assert found.files == ["audit.jsonl.3", "audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
    assert found.notes == ["what came before its first file is not here"]


def test_the_chain_goes_on_if_the_process_ended_between_two_files(path: Path) -> None:
    _record(path, 1)
    path.rename(f"{path}.1")
    _record(path, 2)
    assert verdict(path).problem is None
    assert verdict(path).lines == 6


def test_a_file_that_cannot_be_renamed_is_written_on(path: Path) -> None:
    (path.parent / "audit.jsonl.1").mkdir()
    (path.parent / "audit.jsonl.1" / "full").touch()
    for number in range(5):
        _record(path, number, rotate=400, keep=1)
    assert len(_uris(path)) == 5
    assert verdict(path).problem is None


@pytest.mark.guarantee("reads-are-recorded")
def test_what_another_program_does_to_the_file_is_told(path: Path) -> None:
    file = _open(path)
    file.write(b"one\n")
    assert file.look() is None
    path.rename(path.with_name("old"))
    told = file.look()
    assert told is not None
    assert told.event == "moved"
    file.write(b"two\n")
    with path.open("a") as other:
        other.write("foreign")
    told = file.look()
    assert told is not None
    assert (told.event, told.bytes) == ("foreign", 7)
    os.truncate(path, 0)
    told = file.look()
    assert told is not None
    assert told.event == "cut"
    file.write(b"three\n")
    path.unlink()
    told = file.look()
    assert told is not None
    assert told.event == "moved"
    file.write(b"four\n")
    file.close()
    assert path.read_text() == "four\n"


def test_a_symbolic_link_in_the_place_of_the_file_is_not_followed(path: Path) -> None:
    file = _open(path)
    other = path.with_name("other")
    other.write_text("kept")
    path.unlink()
    path.symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"):
        file.look()
    assert other.read_text() == "kept"
    path.unlink()
    told = file.look()
    assert told is not None
    file.close()
