from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

import pytest

from resource_server.cli import main

ROOT = Path(__file__).parents[2]


class Outcome(NamedTuple):
    status: int
    out: str
    err: str
    raw: bytes


Run: TypeAlias = Callable[..., Outcome]


PLUGIN = """
import os, sys, threading
from anyio import to_thread
from resource_server.provider import Content, Resource

print("imported"); os.write(1, b"imported\\n")

class Mine:
    templates = ()
    async def __aenter__(self):
        print("entered")
        {enter}
    async def __aexit__(self, *_): pass
    def list(self, parent, *, after, limit): return []
    def metadata(self, path):
        return Resource(path=path, name="x", type="document" if path else "collection")
    async def read(self, path, query):
        def hang():
            print("hanging", file=sys.stderr, flush=True)
            threading.Event().wait()
        await to_thread.run_sync(hang, abandon_on_cancel=True)
"""


def with_plugin(folder: Path, enter: str = "return self") -> Path:
    """Add to a folder a manifest with a root and a plugin that prints, and hangs when read."""
    (folder / "mine.py").write_text(PLUGIN.format(enter=enter), "utf-8")
    manifest = folder / "mcp-resources.yaml"
    manifest.write_text("roots:\n  r: {path: docs}\nproviders:\n  mine: {use: mine.py}\n", "utf-8")
    return folder


@contextmanager
def started(
    *arguments: str | Path, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE
) -> Generator[tuple[subprocess.Popen[str], IO[str]]]:
    """Run a command line in a process of its own; give it and its standard error.

    What still runs at the end is ended.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "resource_server", *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={"TERM": "xterm", "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr
        finally:
            process.kill()


def wait_for(line: str, errors: IO[str]) -> None:
    """Wait until a process has written this line to standard error."""
    assert any(each == f"{line}\n" for each in errors), f"ended without writing {line!r}"


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], logs_as_before: None) -> Run:
    """Run a command line in this process, its output going to files."""

    def run(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        assert isinstance(left.value.code, int)
        return Outcome(left.value.code, out.decode("utf-8", "replace"), err.decode(), out)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `project` with text, bytes, a collection, and what is hidden by default."""
    top = tmp_path / "project"
    (top / "docs" / "deep").mkdir(parents=True)
    (top / "README.md").write_text("# Read me\n", "utf-8")
    (top / "docs" / "guide.txt").write_text("one\ntwo\nthree\n", "utf-8")
    (top / "docs" / "deep" / "note.txt").write_text("grüße\n", "utf-8")
    (top / "blob.bin").write_bytes(bytes(range(256)) * 8)
    (top / ".env").write_text("TOKEN=1\n", "utf-8")
    return top
