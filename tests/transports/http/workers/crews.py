"""Servers of several workers, and connections of which the test knows the worker."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from pathlib import Path

from tests.transports.program import Program, RawConnection, modern, project, running
from tests.waiting import block_until

PID = "test://pid/"
_PROVIDER = """
import os
from dataclasses import dataclass
from resource_server.provider import Content, Resource

@dataclass
class Pid:
    templates = ()
    def list(self, parent, *, after, limit): return []
    def metadata(self, path): return Resource(path=path, name="pid", type="document")
    def read(self, path, query): return [Content(str(os.getpid()))]
"""
TIMES = {"worker_retry_s": 0.1, "worker_retry_max_s": 0.4}


def write(place: Path, http: str = "{}", more: str = "") -> Path:
    """Write a manifest with a folder, a phone and a provider that tells its process."""
    (place / "pid.py").write_text(_PROVIDER)
    manifest = project(place, http, more)
    text = manifest.read_text()
    mount = f"providers:\n  pid: {{use: ./pid.py, uri: '{PID}'}}\n  phone:"
    manifest.write_text(text.replace("providers: {phone:", mount).replace('phone/"}}', 'phone/"}'))
    return manifest


@contextlib.contextmanager
def crew(
    place: Path,
    *options: str,
    count: int = 2,
    http: str = "{}",
    more: str = "",
    timing: Mapping[str, float] | None = None,
) -> Generator[Program]:
    """Run a server of several workers."""
    manifest = write(place, http, more)
    with running(
        manifest, "--workers", str(count), *options, timing={**TIMES, **(timing or {})}
    ) as program:
        yield program


def workers(program: Program) -> set[int]:
    """Return the processes of the workers that live."""
    parent = program.process.pid
    return set(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))


def is_alive(pid: int) -> bool:
    """Return whether a process lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def worker_of(line: RawConnection) -> int:
    """Return the process that has a connection."""
    answer = line.ask(modern("resources/read", {"uri": PID}))
    return int(answer.json["result"]["contents"][0]["text"])


@contextlib.contextmanager
def line_to_each(program: Program, count: int = 2) -> Generator[dict[int, RawConnection]]:
    """Connect until each worker has a connection; it is that of its process."""
    with contextlib.ExitStack() as stack:
        found: dict[int, RawConnection] = {}

        def has_all() -> bool:
            line = stack.enter_context(program.line())
            found.setdefault(worker_of(line), line)
            return len(found) == count

        block_until(has_all)
        yield found
