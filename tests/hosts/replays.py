"""Replays of hosts: each host's script against every source and transport."""

from __future__ import annotations

import fcntl
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.hosts.sources import SOURCES, Source, large
from tests.transports.program import running

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TRANSPORTS = ("stdio", "http")
RUNS = tuple(itertools.product(SOURCES, TRANSPORTS))
"""Sources and transports of a whole replay."""
FEW_RUNS = (
    *(("project", "stdio"), ("project", "http")),
    *(("large", "stdio"), ("names", "http"), ("shop", "stdio")),
)
"""Runs of the tests: every source, and every transport; the names are in HTTP headers as well."""
HOSTS = (
    "vscode",
    "claude_code",
    "claude_code_handshake",
    "codex",
    "gemini_cli",
    "cline",
    "continue",
    "goose",
    "opencode",
    "chat_ui",
)
"""The scripts, in the order of the page."""
_PATIENCE_S = 250.0


def replayed(host: str, place: Path, runs: Iterable[tuple[str, str]] = RUNS) -> Any:
    """Return what a host's script prints; it runs once for all that share `place`."""
    return once(place / f"{host}.json", lambda: _replay(host, place, runs))


def once(file: Path, make: Callable[[], Any]) -> Any:
    """Return the content of a JSON file, which the first process to ask for it makes."""
    with _lock(file.with_suffix(".lock")):
        if not file.exists():
            file.write_text(json.dumps(make()))
    return json.loads(file.read_text())


@contextmanager
def _lock(file: Path) -> Generator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replay(host: str, place: Path, runs: Iterable[tuple[str, str]]) -> Any:
    with ExitStack() as stack:
        serving = [
            {
                "name": name,
                "transport": transport,
                "source": facts,
                "serving": _serve(facts["served"], transport, stack),
            }
            for name, transport in runs
            for facts in [_facts(name, host, transport, place)]
        ]
        asked = {"host": host, "cwd": str(ROOT), "runs": serving}
        command = ["node", str(HERE / "replay.mjs")]
        done = subprocess.run(
            command,
            input=json.dumps(asked),
            stdout=subprocess.PIPE,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
        )
    return json.loads(done.stdout)


def _facts(name: str, host: str, transport: str, place: Path) -> dict[str, Any]:
    """Return the facts of a source: of its own for each run that changes it."""
    if SOURCES[name] is large:
        return once(place / "large.json", lambda: large(place).facts())
    own = place / f"{host}-{transport}-{name}"
    own.mkdir()
    source: Source = SOURCES[name](own)
    return source.facts()


def _serve(served: str, transport: str, stack: ExitStack) -> list[str] | str:
    if transport == "http":
        return stack.enter_context(running(Path(served))).url
    return [sys.executable, "-m", "resource_server", "serve", served]
