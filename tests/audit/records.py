"""Records of reads for tests: their lines, and recorders that write at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from resource_server.audit.audit_file import AuditFile
from resource_server.audit.entry import AuditEntry
from resource_server.audit.recorder import Recorder
from resource_server.audit.verification import Verdict, verified
from resource_server.runtime.timing import Timing

SOON = Timing(audit_settle_s=0, audit_retry_s=0.01)
ROTATE = 1 << 24


def entry(number: int, **members: Any) -> AuditEntry:
    """Return a line that tells itself from others."""
    given: dict[str, Any] = {"uri": f"file:///docs/{number}", "decision": "served"}
    given |= {"time": "2026-11-27T12:00:00.000Z", "method": "resources/read", **members}
    return AuditEntry(**given)


def recorder_of(
    path: Path, *, rotate: int = ROTATE, keep: int = 3, refuses: bool = False
) -> Recorder:
    """Return the recorder of a file."""
    file = AuditFile(path, rotate=rotate, keep=keep)
    return Recorder(file, last=file.last, tail=file.tail, refuses=refuses, timing=SOON)


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that are JSON."""
    found: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            found.append({})
    return found


def events(path: Path) -> list[str]:
    """Return what a record tells of itself, in order."""
    return [each["event"] for each in lines(path) if "event" in each]


def verdict(*paths: Path) -> Verdict:
    """Return what the check says of one record."""
    (found,) = verified(paths)
    return found
