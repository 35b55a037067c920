"""Commands at a terminal, as a person runs them: pexpect plays the terminal."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resource_server.cli import console
from tests.cli.conftest import PATIENCE_S, ROOT

pexpect: Any = pytest.importorskip("pexpect")
SLOW = """
import time
from resource_server.provider import Content, Resource

class Slow:
    templates = ()
    async def __aenter__(self):
        import asyncio
        await asyncio.sleep({seconds})
        return self
    async def __aexit__(self, *_): pass
    def list(self, parent, *, after, limit): return []
    def metadata(self, path): return Resource(path=path, name="x", type="collection")
    def read(self, path, query): return [Content(data="")]
"""


def at_a_terminal(
    folder: Path,
    *words: str,
    columns: int = 80,
    variables: Mapping[str, str] | None = None,
) -> Any:
    """Start a command at a terminal of some width."""
    environment = {
        "TERM": "xterm",
        "PATH": os.environ["PATH"],
        "HOME": "/no/such/home",
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
        **(variables or {}),
    }
    return pexpect.spawn(
        sys.executable,
        ["-m", "resource_server", *words],
        cwd=folder,
        env=environment,
        dimensions=(24, columns),
        encoding="utf-8",
        timeout=PATIENCE_S,
        # As in a terminal: in the background, a shell has its children ignore the interrupt.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def shown(process: Any) -> tuple[int, list[str]]:
    """Return the exit status, and the lines on the terminal at the end."""
    process.expect(pexpect.EOF)
    process.close()
    return process.exitstatus, process.before.replace("\r\n", "\n").splitlines()


def without_styles(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def test_a_terminal_has_styles_and_short_sizes(folder: Path) -> None:
    status, lines = shown(at_a_terminal(folder, "list"))
    assert status == 0
    assert any("\x1b[1mfile:///project/docs/\x1b[0m" in line for line in lines)
    assert any(without_styles(line) == " 2.0K  file:///project/blob.bin" for line in lines)


def test_a_terminal_gets_one_screen_of_the_top_with_the_numbers_left(folder: Path) -> None:
    for number in range(30):
        (folder / "docs" / f"{number:02}.txt").touch()
    status, lines = shown(at_a_terminal(folder, "list"))
    assert status == 0
    seen = [without_styles(line)[7:] for line in lines[:-1]]
    assert seen == [
        "file:///project/",
        "file:///project/docs/  33 inside",
        "file:///project/README.md",
        "file:///project/blob.bin",
    ]
    assert lines[-1] == "resource-server: 33 more; --all prints them"
    for command, more in ((("list", ".", "docs"), 11), (("list", ".", "--all"), 0)):
        status, lines = shown(at_a_terminal(folder, *command))
        assert len(lines) == (22 if more else 37)
        assert not more or lines[-1] == f"resource-server: {more} more; --all prints them"


def test_a_folder_larger_than_the_screen_shows_its_beginning(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number:03}.txt").touch()
    status, lines = shown(at_a_terminal(tmp_path, "list"))
    assert (status, len(lines)) == (0, 22)
    assert without_styles(lines[0]).endswith("/  80 inside")
    assert lines[-1] == "resource-server: 80 more; --all prints them"


def test_the_numbers_of_a_bounded_list_are_the_least_there_are(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(60):
        (tmp_path / "docs" / f"{number:02}.txt").touch()
    (tmp_path / "mcp-resources.yaml").write_text(
        "server: {listing: {max: 42}}\nroots: {a: {path: .}}\n", "utf-8"
    )
    status, lines = shown(at_a_terminal(tmp_path, "list"))
    assert status == 0
    assert [without_styles(line)[7:] for line in lines if "inside" in line] == [
        "file:///a/docs/  at least 40 inside"
    ]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"FORCE_COLOR": "0"}])
def test_styles_are_turned_off(folder: Path, variables: dict[str, str]) -> None:
    for command in "list", "check":
        status, lines = shown(at_a_terminal(folder, command, variables=variables))
        assert status == 0
        assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(
    ("variables", "styled"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_a_pipe_has_styles_only_if_they_are_forced(
    folder: Path, variables: dict[str, str], styled: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "resource_server", "check"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "TERM": "xterm", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("\x1b[1m" in done.stdout) == styled


def test_a_narrow_window_breaks_no_line_and_a_pipe_has_it_all(folder: Path) -> None:
    long = "a long name of a document " * 4
    (folder / f"{long}表表.txt").touch()
    for command in (["list"], ["check"], ["metadata", "README.md"]):
        process = at_a_terminal(folder, *command, columns=50)
        status, lines = shown(process)
        assert status == 0
        for line in map(without_styles, lines):
            # An address is for copying, and stays whole.
            assert console.columns(line) <= 50 or " " not in line.strip()[20:], line
    (folder / "mcp-resources.yaml").write_text(f"roots: {{p: {{path: ., title: '{long}'}}}}\n")
    status, lines = shown(at_a_terminal(folder, "list", columns=50))
    assert any(without_styles(line).endswith("…") for line in lines)


def test_hostile_names_are_escaped(folder: Path) -> None:
    name = "\x1b[31mred\x1b]0;title\x07\u202etxt\nnext"
    (folder / name).write_text("\x1b[2J")
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.execute('create table "\x1b[31mred" (id integer primary key)')
    for command in (["list"], ["list", "shop.db"], ["check", "shop.db"], ["sql", "--role"]):
        _, lines = shown(at_a_terminal(folder, *command, variables={"NO_COLOR": "1"}))
        assert not set("\x1b\x07\u202e") & set("".join(lines))
    address = "./" + name.replace("\n", "%0A").replace("\x1b", "%1B").replace("\x07", "%07")
    _, lines = shown(at_a_terminal(folder, "read", address, variables={"NO_COLOR": "1"}))
    assert "\x1b" not in "".join(lines)


def slow_folder(folder: Path, seconds: float) -> Path:
    (folder / "slow.py").write_text(SLOW.format(seconds=seconds))
    (folder / "mcp-resources.yaml").write_text("providers: {slow: {use: slow.py}}\n")
    return folder


@pytest.mark.parametrize("command", ["check", "list", "read resource://slow/a"])
def test_a_long_command_shows_that_it_works_and_removes_the_line(
    folder: Path, command: str
) -> None:
    process = at_a_terminal(slow_folder(folder, 1.6), *command.split())
    process.expect(pexpect.EOF)
    text = process.before
    assert re.search(r"\r(looking at what is served|listing|reading), 1 s\r", text), text
    assert "\r\x1b[K" in text[text.rindex(", 1 s") :]


def test_a_pipe_and_a_dumb_terminal_have_no_progress(folder: Path) -> None:
    slow_folder(folder, 1.3)
    _, lines = shown(at_a_terminal(folder, "check", variables={"TERM": "dumb"}))
    assert ", 1 s" not in "".join(lines)
    done = subprocess.run(
        [sys.executable, "-m", "resource_server", "check"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ", 1 s" not in done.stderr


def test_an_interrupt_ends_a_command_with_status_130(folder: Path) -> None:
    process = at_a_terminal(slow_folder(folder, 60), "check")
    process.expect("looking at what is served, 1 s")
    process.sendintr()
    status, lines = shown(process)
    assert status == 130
    assert "Traceback" not in "\n".join(lines)


def test_watch_runs_until_an_interrupt(folder: Path) -> None:
    process = at_a_terminal(folder, "watch")
    process.expect("Ctrl-C ends")
    (folder / "README.md").write_text("# Changed\n")
    process.expect("README.md")
    process.sendintr()
    assert shown(process)[0] in (0, 130)


def test_a_home_folder_that_does_not_exist_is_named(folder: Path) -> None:
    status, lines = shown(at_a_terminal(folder, "doctor"))
    assert status == 0
    assert any("none is found on this machine" in line for line in lines)


def test_install_asks_and_an_interrupt_changes_nothing(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    process = at_a_terminal(folder, "install", "cursor", ".", variables={"HOME": str(home)})
    process.expect("Make this change")
    process.sendintr()
    # Python's `input` does not hear of an interrupt that comes just before it reads.
    while process.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=PATIENCE_S / 20):
        process.sendintr()
    process.close()
    assert process.exitstatus == 130
    assert not list(home.iterdir())


COMMANDS = [
    "check .",
    "list .",
    "list --json .",
    "list --uris .",
    "read . README.md",
    "metadata . README.md",
    "init -o - .",
    "install json .",
    "install --list",
    "doctor",
    "schema",
    "version",
    "--help",
    "sql --role shop.db",
]


@pytest.mark.deep
@pytest.mark.parametrize("redirection", [">&-", "closed"])
def test_a_closed_output_ends_every_command_quietly(folder: Path, redirection: str) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.execute("create table orders (id integer primary key)")
    reader, writer = os.pipe()
    os.close(reader)
    for command in COMMANDS:
        line = f"exec {sys.executable} -m resource_server {command}"
        done = subprocess.run(
            ["/bin/sh", "-c", f"{line} >&-" if redirection == ">&-" else line],
            stdin=subprocess.DEVNULL,
            stdout=None if redirection == ">&-" else writer,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": os.environ["PATH"]},
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, ""), command
    os.close(writer)
