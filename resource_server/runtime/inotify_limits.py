"""The limits of inotify for each user, and what is in use."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_SYSTEM = Path("/proc")


@dataclass(frozen=True, slots=True)
class InotifyLimits:
    """Limits of the user, and what the user's processes use that this one may look at."""

    max_watches: int
    max_instances: int
    watches: int
    instances: int

    @property
    def short(self) -> Literal["watches", "instances"] | None:
        """The limit that is over 90 % used; None if neither is."""
        if self.watches > 0.9 * self.max_watches:
            return "watches"
        return "instances" if self.instances > 0.9 * self.max_instances else None


def inotify_limits(system: Path = _SYSTEM) -> InotifyLimits | None:
    """Return the limits; None where the system has no inotify."""
    folder = system / "sys" / "fs" / "inotify"
    try:
        watches = int((folder / "max_user_watches").read_text())
        instances = int((folder / "max_user_instances").read_text())
    except (OSError, ValueError):
        return None
    used = [0, 0]
    for process in system.glob("[0-9]*"):
        # Processes end meanwhile, and those of others are not shown.
        with suppress(OSError):
            if process.stat().st_uid == os.getuid():
                _add(process, used)
    return InotifyLimits(watches, instances, *used)


def _add(process: Path, used: list[int]) -> None:
    for descriptor in (process / "fd").iterdir():
        with suppress(OSError):
            if str(descriptor.readlink()) == "anon_inode:inotify":
                used[0] += (process / "fdinfo" / descriptor.name).read_text().count("inotify wd:")
                used[1] += 1
