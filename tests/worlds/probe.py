"""A plugin that reports on its own process, and that takes as long as it is asked to.

`process` is the state of the process as JSON; reading `slow/MS` takes so many milliseconds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from resource_server.errors import NotACollection, ResourceNotFound
from resource_server.provider import Content, Path, Provider, Resource, Template

_MAX_MS = 1000


@dataclass
class Probe:
    """See above."""

    templates: Sequence[Template] = (Template("slow/{ms}", name="slow"),)

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the report."""
        if parent:
            raise NotACollection
        return [self.metadata(("process",))] if after is None else []

    def metadata(self, path: Path) -> Resource:
        """Describe the report or a wait."""
        if not path:
            return Resource(path=(), name="probe", type="collection")
        if path != ("process",) and _milliseconds(path) is None:
            raise ResourceNotFound
        return Resource(path=path, name=path[-1])

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Report, or wait."""
        if path == ("process",):
            return [Content(json.dumps(_process()))]
        ms = _milliseconds(path)
        if ms is None:
            raise ResourceNotFound
        await asyncio.sleep(ms / 1000)
        return [Content(f"after {ms} ms")]


def _milliseconds(path: Path) -> int | None:
    if len(path) == 2 and path[0] == "slow" and path[1].isascii() and path[1].isdigit():
        return min(int(path[1][:4]), _MAX_MS)
    return None


def _process() -> dict[str, int]:
    gc.collect()
    status = FilePath("/proc/self/status").read_text("ascii")
    return {
        "memory": int(status.partition("VmRSS:")[2].split()[0]) * 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
    }


_: type[Provider] = Probe
