"""Changes of a configuration: what is shown, who agrees, and programs that fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from resource_server.cli.hosts.config_change import ProgramFailed, run_program
from tests.cases import for_each
from tests.cli.conftest import ROOT, Run
from tests.cli.homes import CONFIGURATIONS, everything, on_terminal, put


def test_the_change_is_shown_without_the_secrets_around_it(run: Run, home: Path) -> None:
    put(home, "cursor", '{"mcpServers": {"a": {"env": {"TOKEN": "s3cret"}}, "b": 1}}')
    done = run("install", "cursor", "--name", "n", "--yes")
    assert done.out.startswith("--- ~/.cursor/mcp.json\n@@ line 1 @@\n+,")
    assert "s3cret" not in done.out + done.err
    done = run("uninstall", "cursor", "--yes")
    assert '-, "n": {"command": ' in done.out
    assert "s3cret" not in done.out + done.err


@pytest.mark.guarantee("configurations-keep-the-rest")
def test_a_person_is_asked_and_may_refuse(home: Path, folder: Path) -> None:
    install = ("install", "cursor", "--name", "n")
    refused = on_terminal(b"n\n", home, folder, *install)
    assert (refused.status, everything(home)) == (1, {})
    assert "+{" in refused.out
    assert "Make this change? [y/N]: " in refused.err
    assert refused.err.endswith("nothing was changed\n")
    assert on_terminal(b"\x04", home, folder, *install).status == 130
    assert everything(home) == {}
    agreed = on_terminal(b"y\n", home, folder, *install)
    assert agreed.status == 0
    assert agreed.out.endswith("connected Cursor as n\n")
    assert "n" in json.loads((home / CONFIGURATIONS["cursor"]).read_text())["mcpServers"]


@pytest.mark.guarantee("configurations-keep-the-rest")
def test_nothing_is_changed_if_the_change_cannot_be_shown(home: Path, folder: Path) -> None:
    command = f"{sys.executable} -m resource_server install cursor --yes >&-"
    environment = {"HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=environment, check=False)
    assert (done.returncode, everything(home)) == (1, {})


@for_each(
    ("code", "says"),
    [
        (r"import sys; sys.exit('first\nlast  one')", "failed with status 1: last one"),
        ("print('on stdout'); raise SystemExit(3)", "failed with status 3: on stdout"),
        ("raise SystemExit(4)", "failed with status 4"),
        (r"import os; os.write(2, b'\xff\n'); os._exit(5)", "failed with status 5: \ufffd"),
    ],
)
def test_a_program_that_fails_has_its_last_line_as_the_reason(code: str, says: str) -> None:
    with pytest.raises(ProgramFailed) as failed:
        run_program(sys.executable, "-c", code)
    assert failed.value.message == f"`{sys.executable}` {says}"


def test_a_program_that_is_missing_or_does_not_end_is_named() -> None:
    with pytest.raises(ProgramFailed, match="`no-such-program` cannot be run, no such file"):
        run_program("no-such-program")
    with pytest.raises(ProgramFailed, match=r"did not end within 0 s"):
        run_program(sys.executable, "-c", "input()", timeout_s=0.0)


def test_the_output_of_a_program_is_returned() -> None:
    code = "import sys; print(sys.argv[1:])"
    assert run_program(sys.executable, "-c", code, "a b", "") == "['a b', '']"
