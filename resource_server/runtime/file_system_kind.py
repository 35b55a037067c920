"""The kind of file system a folder lies on: whether the kernel reports its changes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal, TypeAlias

FileSystemKind: TypeAlias = Literal["local", "remote", "pseudo"]
"""`remote`: other machines write to it, unseen by this kernel. `pseudo`: it shows the state of the
kernel instead of files, as /proc does, and never rests."""

_REMOTE = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf",
        "virtiofs", "vmhgfs",
    )
)  # fmt: skip
"""Types as in /proc/self/mountinfo; FUSE types (`fuse...`) are remote, too."""

_PSEUDO = frozenset(
    (
        "autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs",
        "devpts", "devtmpfs", "efivarfs", "fusectl", "mqueue", "nfsd", "nsfs", "proc", "pstore",
        "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
    )
)  # fmt: skip


def file_system_kind(path: str) -> FileSystemKind:
    """Return the kind of file system a folder lies on; `local` if unknown."""
    if sys.platform != "linux":
        return "local"
    try:
        table = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return "local"
    name = file_system_type(table, os.fsencode(os.path.realpath(path)))
    if name in _PSEUDO:
        return "pseudo"
    return "remote" if name in _REMOTE or name.startswith("fuse") else "local"


class FileSystemKinds:
    """The kinds of the file systems below a root, looked up once per device."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[int, FileSystemKind] = {}

    def kind(self, path: str, device: int) -> FileSystemKind:
        """Return the kind of the file system `device` that the folder `path` lies on."""
        found = self._known.get(device)
        if found is None:
            found = self._known[device] = file_system_kind(f"{self._root}/{path}")
        return found


def file_system_type(table: bytes, path: bytes) -> str:
    """Return the type of the file system a resolved path lies on, from /proc/self/mountinfo."""
    longest, name = b"", ""
    for line in table.splitlines():
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) < 5 or not after:
            continue
        # Spaces and the like are escaped as \\040.
        point = fields[4].decode("unicode_escape").encode("latin-1").rstrip(b"/") + b"/"
        # The last of several mounts at one point hides the others.
        if (path + b"/").startswith(point) and len(point) >= len(longest):
            longest, name = point, after.split(b" ", 1)[0].decode("ascii", "replace")
    return name
