from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = "# Hällo\n\nsecond line\n"
BLOB = b"\x89PNG\x00\xff"


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
    """The URIs of the whole folder, in order."""
    notes = [f"file:///project/notes/{number:03}.txt" for number in range(120)]
    docs = ["file:///project/docs", "file:///project/docs/read%20me.md"]
    return [
        "file:///project",
        *docs,
        "file:///project/logo.png",
        "file:///project/notes",
        *notes,
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
def slow() -> list[str]:
    """The command that serves slow documents; run it in the project's root."""
    return [sys.executable, "-m", "tests.clients.slow_server"]
