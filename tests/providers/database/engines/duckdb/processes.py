"""The processes that a process has started."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def children_of(parent: int) -> set[int]:
    """Return the processes that this one has started and not yet waited for."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of the program may hold spaces and parentheses.
            state, started_by = path.read_text().rpartition(")")[2].split()[:2]
            if int(started_by) == parent and state != "Z":
                found.add(int(path.parent.name))
    return found


def ended(process: int) -> bool:
    """Return whether there is no such process any more."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] == "Z"
