"""Whether a folder lies on a file system that other machines write to, unseen by this kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_REMOTE = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf",
        "virtiofs", "vmhgfs",
    )
)  # fmt: skip
"""Types as in /proc/self/mountinfo; those of FUSE begin with `fuse`."""


def is_remote(path: str) -> bool:
    """Say whether changes to a folder may come from elsewhere; False where nothing tells."""
    if sys.platform != "linux":
        return False
    try:
        table = Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return False
    kind = _type(table, os.fsencode(os.path.realpath(path)))
    return kind in _REMOTE or kind.startswith("fuse")


def _type(table: bytes, path: bytes) -> str:
    """Return the type of the file system that a real path lies on, by the table of mounts."""
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
