"""Standard streams of the command line: closed, full, or of another encoding."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from resource_server.cli import console
from tests.cli.conftest import ROOT
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("words", [["list", "."], ["check", "."], ["--help"], ["version"]])
def test_unwritable_output_is_one_line_and_status_1(folder: Path, words: list[str]) -> None:
    done = in_a_shell(">/dev/full", *words, folder=folder)
    assert (done.returncode, done.stderr) == (1, "resource-server: no space left on device\n")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_an_unwritable_error_still_sets_the_exit_status(folder: Path, redirection: str) -> None:
    done = in_a_shell(redirection, "list", "missing", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_server_without_standard_streams_ends_immediately(folder: Path) -> None:
    assert in_a_shell("<&- >&- 2>&-", "serve", ".", folder=folder).returncode == 0


def in_a_shell(redirection: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, its standard streams as a shell redirects them."""
    line = f'exec "$0" -m resource_server "$@" {redirection}'
    return subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_that_lacks_characters_does_not_stop_the_output(
    tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "雪.txt").write_text("☃\n", "utf-8")
    listed = subprocess.run(
        [sys.executable, "-m", "resource_server", "list", str(tmp_path)],
        env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert rb"/\u96ea.txt" in listed.stdout
    assert listed.stderr == b""


def test_control_characters_are_escaped_for_a_terminal() -> None:
    assert console.escaped("a\x1b[31m\u202eb\n") == r"a\x1b[31m\u202eb\n"
    assert console.escaped("grüße" * 100) == "grüße" * 100


def test_fields_stand_in_two_columns_without_empty_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console.print_fields([("name", "a"), ("title", ""), ("media type", "text/plain")])
    assert capsys.readouterr().out == "name        a\nmedia type  text/plain\n"


def test_a_failure_is_printed_line_by_line_with_its_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert console.fail("one", "two\n") == 1
    assert console.fail("m.yaml:1:1: three", prefix=False, status=2) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "resource-server: one\nresource-server: two\\n\nm.yaml:1:1: three\n"


def test_json_is_utf_8_of_one_line_a_value(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    console.print_json({"a": "ü"}, [1])
    console.print_indented_json({"a": 1})
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == '{"a":"ü"}\n[1]\n{\n  "a": 1\n}\n'.encode()
