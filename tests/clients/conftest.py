from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
PERSON = ROOT / "tests" / "person.py"
TEXT = "# Hällo\n\nsecond line\n"
BLOB = b"\x89PNG\x00\xff"
TRANSPORTS = ("stdio", "http")

Target: TypeAlias = list[str] | str
"""A command, which talks over its standard input and output, or the URL where it serves."""
Reach: TypeAlias = Callable[[list[str], str], Target]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of more than one page: `docs/read me.md`, `logo.png` and 120 notes."""
    folder = tmp_path_factory.mktemp("clients") / "project"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs/read me.md").write_text(TEXT, encoding="utf-8")
    (folder / "logo.png").write_bytes(BLOB)
    (folder / "notes").mkdir()
    for number in range(120):
        (folder / f"notes/{number:03}.txt").write_text(f"note {number}\n")
    return folder


@pytest.fixture(scope="session")
def listed() -> list[str]:
    """The URIs of the whole folder, in order: level by level, collections first."""
    return [
        "file:///project",
        "file:///project/docs",
        "file:///project/notes",
        "file:///project/logo.png",
        "file:///project/docs/read%20me.md",
        *(f"file:///project/notes/{number:03}.txt" for number in range(120)),
    ]


@pytest.fixture(scope="session")
def serving(folder: Path) -> list[str]:
    """The command that serves the folder; run it in the project's root."""
    return serve(folder)


def serve(folder: Path) -> list[str]:
    """Return the command that serves a folder; run it in the project's root."""
    return [sys.executable, "-m", "resource_server", "serve", str(folder)]


@pytest.fixture(scope="session")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Make folders to be changed, each with `watched/read me.md` in a folder `project`."""

    def make() -> Path:
        folder = tmp_path_factory.mktemp("changing") / "project"
        (folder / "watched").mkdir(parents=True)
        (folder / "watched/read me.md").write_text(TEXT, encoding="utf-8")
        return folder

    return make


@pytest.fixture(scope="session")
def slow() -> Callable[[], list[str]]:
    """Make commands that serve slow documents, each in a server of its own, which counts reads."""
    numbers = itertools.count()
    return lambda: [sys.executable, "-m", "tests.clients.slow_server", str(next(numbers))]


@pytest.fixture(scope="session")
def asking(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that serves tools that ask; run it in the project's root."""
    manifest = tmp_path_factory.mktemp("asking") / "mcp-resources.yaml"
    manifest.write_text(
        f'providers: {{person: {{use: {PERSON}, uri: "test://person/"}}}}\n'
        "prompts: {hello: {arguments: {name: {required: true}}, "
        "messages: [{text: 'Hello {name}'}]}}\n"
    )
    return [sys.executable, "-m", "resource_server", "serve", str(manifest)]


@pytest.fixture(scope="session")
def reach() -> Generator[Reach]:
    """Where a command is reached by one of `TRANSPORTS`; over HTTP, one server stays for all."""
    serving: dict[tuple[str, ...], str] = {}
    with ExitStack() as stack:

        def reach(command: list[str], transport: str) -> Target:
            if transport == "stdio":
                return command
            key = tuple(command)
            if key not in serving:
                serving[key] = start(command)
            return serving[key]

        def start(command: list[str]) -> str:
            process = subprocess.Popen(
                [*command, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, cwd=ROOT, text=True
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stderr is not None
            stack.enter_context(closing(process.stderr))
            line = process.stderr.readline()
            found = re.search(r"serving at (\S+)", line)
            assert found, line
            return found[1]

        yield reach
