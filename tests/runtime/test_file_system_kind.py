from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from resource_server.runtime.file_system_kind import (
    FileSystemKinds,
    file_system_kind,
    file_system_type,
)
from tests.cases import for_each

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="Linux says what is mounted")

TABLE = b"""\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 27 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/ada rw shared:7 master:3 - xfs /dev/vdb rw
32 27 0:42 / /mnt/with\\040blank\\134and\\012line rw - cifs //server/share rw
33 27 0:43 /sub /srv/data rw - fuse.sshfs host: rw
34 27 0:44 / /srv/dash\\040-\\040dash rw - 9p host rw
35 27 0:45 / /over rw - tmpfs tmpfs rw
36 35 0:46 / /over rw - ceph ceph rw
37 27 0:47 / /caf\xc3\xa9 rw - smb3 server rw
nonsense
38 27
"""


@for_each(
    ("path", "expected"),
    [
        ("/", "ext4"),
        ("/srv", "ext4"),
        ("/homes/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/alan/notes", "nfs4"),
        ("/home/ada", "xfs"),
        ("/home/ada/notes", "xfs"),
        ("/home/adam", "nfs4"),
        ("/mnt/with blank\\and\nline/x", "cifs"),
        ("/srv/data/x", "fuse.sshfs"),
        ("/srv/dash - dash", "9p"),
        ("/over/x", "ceph"),
        ("/café/x", "smb3"),
        ("/proc/self", "proc"),
    ],
)
def test_the_deepest_and_last_mount_determines_the_file_system(path: str, expected: str) -> None:
    assert file_system_type(TABLE, path.encode()) == expected


@for_each("table", [b"", b"nonsense\n", b"\xff\xfe", b" - \n", b"1 2 3 4 /x rw - \n"])
def test_an_unusable_mount_table_is_ignored(table: bytes) -> None:
    assert file_system_type(table, b"/srv") == ""


@linux_only
def test_pseudo_file_systems_are_recognised(tmp_path: Path) -> None:
    assert file_system_kind("/proc/self") == "pseudo"
    assert file_system_kind(str(tmp_path)) in ("local", "remote")
    assert file_system_kind(str(tmp_path / "none")) == file_system_kind(str(tmp_path))


@linux_only
def test_a_link_has_the_file_system_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc")
    assert file_system_kind(str(tmp_path / "link")) == "pseudo"


@linux_only
def test_a_path_that_is_not_utf_8_has_a_file_system(tmp_path: Path) -> None:
    assert file_system_kind(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")) == file_system_kind(
        str(tmp_path)
    )


@linux_only
def test_file_system_kinds_may_differ_below_one_root() -> None:
    kinds = FileSystemKinds("/")
    for path in ("proc/", "sys/", ""):
        device = Path("/", path).stat().st_dev
        assert kinds.kind(path, device) == file_system_kind(f"/{path}")
    assert kinds.kind("proc/", Path("/proc").stat().st_dev) == "pseudo"
