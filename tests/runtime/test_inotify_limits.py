from __future__ import annotations

from pathlib import Path

from resource_server.runtime.inotify_limits import InotifyLimits, inotify_limits


def test_watches_and_instances_of_this_user_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "sys" / "fs" / "inotify"
    folder.mkdir(parents=True)
    (folder / "max_user_watches").write_text("100\n")
    (folder / "max_user_instances").write_text("10\n")
    process = tmp_path / "12"
    for name in "fd", "fdinfo":
        (process / name).mkdir(parents=True)
    (process / "fd" / "3").symlink_to("anon_inode:inotify")
    (process / "fd" / "4").symlink_to("/dev/null")
    (process / "fdinfo" / "3").write_text("pos: 0\ninotify wd:1 ino:2\ninotify wd:2 ino:3\n")
    (tmp_path / "13").mkdir()  # it has ended
    assert inotify_limits(tmp_path) == InotifyLimits(100, 10, watches=2, instances=1)


def test_a_system_without_inotify_has_no_limits(tmp_path: Path) -> None:
    assert inotify_limits(tmp_path) is None


def test_a_limit_is_short_when_less_than_a_tenth_is_left() -> None:
    assert InotifyLimits(100, 10, watches=91, instances=1).short == "watches"
    assert InotifyLimits(100, 10, watches=1, instances=10).short == "instances"
    assert InotifyLimits(100, 10, watches=90, instances=9).short is None
