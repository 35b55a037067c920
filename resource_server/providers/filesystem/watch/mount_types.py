"""What kind of file system a folder lies on: not of all does the kernel tell what changes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["local", "remote", "made-up"]
"""`remote`: other machines write to it, unseen by this kernel. `made-up`: it shows no files but
the state of the kernel, as /proc does, and never rests."""

_REMOTE = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf",
        "virtiofs", "vmhgfs",
    )
)  # fmt: skip
"""Types as in /proc/self/mountinfo; those of FUSE begin with `fuse`."""


_MADE_UP = frozenset(
    (
        "autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs",
        "devpts", "devtmpfs", "efivarfs", "fusectl", "mqueue", "nfsd", "nsfs", "proc", "pstore",
        "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
    )
)  # fmt: skip


def kind(path: str) -> Kind:
    """Return the kind of file system that a folder lies on; local where nothing tells."""
    if sys.platform != "linux":
        return "local"
    try:
        table = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return "local"
    name = type_of(table, os.fsencode(os.path.realpath(path)))
    if name in _REMOTE or (name.startswith("fuse") and name not in _MADE_UP):
        return "remote"
    return "made-up" if name in _MADE_UP else "local"


class Kinds:
    """The kinds of the file systems below a root, looked up once for each device."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[int, Kind] = {}

    def of(self, path: str, device: int) -> Kind:
        """Return the kind of file system of a folder below the root, which is on this device."""
        found = self._known.get(device)
        if found is None:
            found = self._known[device] = kind(os.path.join(self._root, path))
        return found


def type_of(table: bytes, path: bytes) -> str:
    """Return the type of the file system that a real path lies on, by /proc/self/mountinfo."""
    best, kind = b"", ""
    for line in table.splitlines():
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) < 5 or not after:
            continue
        # Blanks and the like are written as \\040 in it.
        point = fields[4].decode("unicode_escape").encode("latin-1").rstrip(b"/") + b"/"
        # Of several mounts at one place the last one hides the others.
        if (path + b"/").startswith(point) and len(point) >= len(best):
            best, kind = point, after.split(b" ", 1)[0].decode("ascii", "replace")
    return kind
