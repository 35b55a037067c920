"""The program: usage errors, exit statuses, one line for each error."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from resource_server import __version__
from tests.cli.conftest import Run, started
from tests.waiting import PATIENCE_S

COMMANDS = [
    "serve",
    "check",
    "list",
    "read",
    "metadata",
    "watch",
    "init",
    "new-provider",
    "doctor",
    "sql",
    "schema",
    "version",
]


def is_one_line(text: str) -> bool:
    return text.endswith("\n") and text.count("\n") == 1 and "Traceback" not in text


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-V"]])
def test_the_version_is_printed(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).out == f"resource-server, version {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run: Run, command: str) -> None:
    done = run(command, "--help")
    assert done.status == 0
    assert done.out.startswith(f"Usage: resource-server {command}")


def test_help_names_every_command_in_one_short_line(run: Run) -> None:
    done = run("--help")
    assert done.status == 0
    for command in COMMANDS:
        (line,) = (each for each in done.out.splitlines() if each.startswith(f"  {command} "))
        assert not line.endswith("...")


def test_a_missing_command_says_how_to_begin(run: Run) -> None:
    done = run()
    assert (done.status, done.out) == (2, "")
    first, *steps = done.err.splitlines()
    assert first.startswith("resource-server serves folders and databases")
    named = [step.split()[1] for step in steps]
    assert set(named) <= {"--help", *COMMANDS, "install"}
    assert "--help" in named


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["chekc"], "unknown command 'chekc'; did you mean 'check'? See resource-server --help"),
        (["list", "--jsn"], "no such option"),
        (["list", "a://b/", "c://d/"], "expected one URI, found 2"),
        (["list", ".", "README.md", "docs"], "expected one URI, found 2"),
        (["serve", ".", "--port", "8000"], "`serve --http 127.0.0.1:8000`"),
        (["read"], "URI or path of a resource is missing"),
        (["metadata"], "URI or path of a resource is missing"),
        (["init", "a", "b"], "unexpected extra argument"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(run: Run, arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert is_one_line(done.err)
    assert done.err.startswith("resource-server: ")
    assert words in done.err
    assert "--help" in done.err


@pytest.mark.parametrize("command", ["list", "check"])
def test_a_missing_source_is_one_line_and_status_2(run: Run, command: str) -> None:
    done = run(command, "no/such/folder")
    assert (done.status, done.out) == (2, "")
    assert done.err == "no/such/folder: no such file or folder\n"
    done = run(command, "no/such/shop.db")
    assert (done.status, done.out) == (2, "")
    assert done.err == "no/such/shop.db: no such file; databases are opened, never created\n"


@pytest.mark.parametrize("command", ["list", "check", "serve", "read", "watch", "metadata"])
def test_an_unusable_url_is_one_line_that_does_not_repeat_it(run: Run, command: str) -> None:
    uri = ["a://b/c"] if command in ("read", "metadata") else []
    for url in (
        "mysql://me:secret@host:port/db",
        "mysql://me:secret",
        "mysql://me:a@se/cr@et:x/db",
    ):
        done = run(command, url, *uri)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith("mysql://…: misplaced special characters")
        assert is_one_line(done.err)
        assert "cret" not in done.err
        assert "cr@et" not in done.err


def test_every_problem_of_a_manifest_is_one_line(run: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text("version: 2\nroots:\n  a: {path: ., exlude: [b]}\n", "utf-8")
    done = run("list", manifest)
    assert (done.status, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first.startswith(f"{manifest}:1:10: version: ")
    assert second.startswith(f"{manifest}:3:16: roots.a.exlude: ")
    assert "did you mean 'exclude'?" in second


def test_the_source_defaults_to_the_current_folder(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert run("read", "file:///project/README.md").out == "# Read me\n"


def test_a_named_manifest_is_the_source(run: Run, folder: Path) -> None:
    manifest = folder.parent / "other.yaml"
    manifest.write_text(f"roots:\n  mine: {{path: {folder}}}\n", "utf-8")
    assert run("read", manifest, "file:///mine/README.md").out == "# Read me\n"


def test_an_unexpected_error_is_one_line(run: Run, tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "class Broken:\n"
        "    templates = ()\n"
        "    def list(self, parent, *, after, limit): return []\n"
        "    def metadata(self, path): return 1 / 0\n"
        "    def read(self, path, query): return []\n",
        "utf-8",
    )
    (tmp_path / "mcp-resources.yaml").write_text("providers:\n  b: {use: broken.py}\n", "utf-8")
    done = run("metadata", tmp_path, "resource://b/x")
    assert (done.status, done.out) == (1, "")
    assert "Traceback" not in done.err
    assert done.err.splitlines()[-1] == "resource-server: internal error"


def test_a_reader_that_closes_the_pipe_ends_the_command_silently(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:0200}.txt").touch()
    with started("list", "--json", tmp_path) as (process, errors):
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 1
        assert errors.read() == ""


def test_an_output_without_a_reader_ends_the_command_silently(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with started("list", folder, stdout=writer) as (process, errors):
        os.close(writer)
        assert process.wait(PATIENCE_S) == 1
        assert errors.read() == ""


def test_unwritable_responses_are_logged_and_end_the_server(folder: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with started("serve", folder, stdin=subprocess.PIPE, stdout=full) as (process, errors):
        os.close(full)
        assert process.stdin is not None
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert process.wait(PATIENCE_S) == 1
        assert "responses cannot be written: No space left on device" in errors.read()
