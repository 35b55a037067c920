"""Completion in real shells, typed as a person types it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import sqlite3
import subprocess
import sysconfig
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from resource_server.cli import completion
from tests.cli.conftest import PATIENCE_S, Run

PROGRAM = "resource-server"
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
LOAD = {
    "bash": f'eval "$({PROGRAM} completion bash)"',
    "zsh": f'autoload -U compinit; compinit -u -D; eval "$({PROGRAM} completion zsh)"',
    "fish": f"{PROGRAM} completion fish | source",
}


class Shell:
    """A shell at a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def type(self, keys: str) -> None:
        """Type keys; `\t` completes."""
        os.write(self._terminal, keys.encode())

    def until(self, text: str) -> str:
        """Return what the terminal shows up to and with this text."""
        deadline = time.monotonic() + PATIENCE_S
        seen = ""
        while text not in seen:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {seen!r}"
            if select.select([self._terminal], [], [], left)[0]:
                seen += os.read(self._terminal, 65536).decode(errors="replace")
        return seen


@contextmanager
def shell(name: str, folder: Path) -> Generator[Shell]:
    if not (shutil.which(name) and shutil.which("setsid")):
        pytest.skip(f"no {name}")
    terminal, end = pty.openpty()
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "TERM": "dumb", "HOME": str(folder.parent), "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        ["setsid", "--ctty", *SHELLS[name]],
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=folder,
        env=environment,
    ) as process:
        os.close(end)
        try:
            typist = Shell(terminal)
            typist.type(f"{LOAD[name]}; echo load''ed\n")
            typist.until("loaded")
            yield typist
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            os.close(terminal)


@pytest.fixture
def here(folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("create table orders (id integer primary key, what)")
        database.execute("insert into orders values (7, 'tea')")
    other = folder.parent / "other"
    other.mkdir()
    (other / "a b'c.txt").write_text("quoted", "utf-8")
    return folder


TYPED = {
    "versi\t": ", version ",
    "list --uri\t docs": "file:///docs/deep",
    "read . READ\t": "# Read me",
    "read . docs/gui\t": "three",
    "read . file:///pro\tdocs/gui\t": "three",
    "read ../other a\t": "quoted",
    "read shop.db sqlite://shop/ord\t7": '"what":"tea"',
    "install zed --print win\t": "no such file or folder",
    "completion fi\t": "complete --no-files",
}
"""What is typed, and what then is shown."""


SOME = {typed: TYPED[typed] for typed in ("versi\t", "read . docs/gui\t")}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        *((name, SOME) for name in SHELLS),
        *(pytest.param(name, TYPED, marks=pytest.mark.deep) for name in SHELLS),
    ],
)
def test_what_is_typed_in_part_is_completed(name: str, lines: dict[str, str], here: Path) -> None:
    with shell(name, here) as typist:
        for typed, shown in lines.items():
            typist.type(f"{PROGRAM} {typed}\n")
            typist.until(shown)


def completed(run: Run, monkeypatch: pytest.MonkeyPatch, line: str) -> tuple[list[str], str]:
    """Return the completions that bash gets for a line, and standard error."""
    monkeypatch.setenv("_RESOURCE_SERVER_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.delenv("COMP_WORDBREAKS", raising=False)
    done = run()
    assert done.status == 0
    return done.out.split("\n")[:-1], done.err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("read . .e", ["file,.e"]),
        ("read . docs/", ["path,docs/deep/", "path,docs/guide.txt"]),
        ("read . file:", ["plain,file:///project/"]),
        ("read . file:///project/.", [""]),
        ("read . file:///nowhere/", [""]),
        ("read . sq", ["file,sq"]),
        ("read nowhere x", ["file,x"]),
        ("watch . README.md do", ["path,docs/"]),
        ("check . --explain READ", ["file,READ"]),
        ("check RE", ["file,RE"]),
        ("read", ["plain,read"]),
        ("uninstall wind", ["plain,windsurf"]),
    ],
)
def test_completions_are_visible_and_begin_as_typed(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]
) -> None:
    monkeypatch.chdir(folder)
    assert completed(run, monkeypatch, f"resource-server {line}") == (expected, "")


def test_names_that_could_control_a_terminal_are_no_completions(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "evil\x1b[31m", "evil\nplain,x", "evil\udcff", "evil":
        (folder / name).touch()
    monkeypatch.chdir(folder)
    assert completed(run, monkeypatch, "resource-server read . evi") == (["path,evil"], "")


def test_completion_runs_no_plugin_and_prints_no_warning(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mine.py").write_text("raise SystemExit('this ran')\n", "utf-8")
    (folder / "mcp-resources.yaml").write_text(
        "roots: {r: {path: docs}, gone: {path: no}}\nproviders: {mine: {use: mine.py}}\n", "utf-8"
    )
    monkeypatch.chdir(folder)
    assert completed(run, monkeypatch, "resource-server read . gu") == (["path,guide.txt"], "")


def test_an_unknown_shell_is_a_usage_error(run: Run) -> None:
    done = run("completion", "tcsh")
    assert (done.status, done.out) == (2, "")
    assert "bash" in done.err
    assert f"Choose from: {', '.join(completion.SHELLS)}; see" in run("completion").err
