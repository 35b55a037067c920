from __future__ import annotations

import os
from pathlib import Path

import pytest

from resource_server.runtime.private_folder import folder_problem, private_folder
from tests.cases import for_each


def _next_descriptor() -> int:
    found = os.dup(0)
    os.close(found)
    return found


def test_a_folder_is_made_for_its_owner_alone_and_closed_again(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "cache"
    assert folder_problem(folder) is None
    assert not folder.exists()
    with private_folder(folder) as at:
        assert os.fstat(at).st_ino == folder.stat().st_ino
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not os.get_inheritable(at)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(at)


@for_each("mode", [0o770, 0o702, 0o1777])
def test_a_folder_to_which_others_may_write_is_refused_and_closed(
    tmp_path: Path, mode: int
) -> None:
    tmp_path.chmod(mode)
    before = _next_descriptor()
    with pytest.raises(PermissionError), private_folder(tmp_path):
        pass
    assert _next_descriptor() == before
    assert folder_problem(tmp_path) == "others may write to the folder"


def test_a_folder_that_others_may_read_is_used(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert folder_problem(tmp_path) is None


def test_what_is_no_folder_is_a_problem_and_stays(tmp_path: Path) -> None:
    file, nowhere, circle = (tmp_path / each for each in ("file", "nowhere", "circle"))
    file.write_text("x")
    nowhere.symlink_to(tmp_path / "gone")
    circle.symlink_to(circle)
    for each in (file, nowhere, circle):
        assert folder_problem(each) == "it is no folder"
        with pytest.raises(NotADirectoryError), private_folder(each):
            pass
    assert file.read_text() == "x"
    assert not (tmp_path / "gone").exists()
