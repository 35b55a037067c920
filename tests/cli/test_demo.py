"""The demonstration: made in a temporary folder, served, and gone at the end."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from resource_server.cli import demo
from tests.cli.conftest import ENVIRONMENT, Run, connected, serve_command
from tests.waiting import PATIENCE_S


def test_every_command_to_try_shows_what_it_says(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    with demo.made() as sources:
        place, *tried = demo.hints(sources)
        monkeypatch.chdir(shlex.split(place)[-1])
        for line in tried:
            command = line.strip().split("   ")[0].rsplit("  ", 1)[0]
            done = run(*shlex.split(command)[1:])
            assert (done.status, done.err.count("Traceback")) == (0, 0), line
            shown.append(done.out)
        monkeypatch.undo()
    listed, row, lines, explained = shown
    assert "sqlite://shop/" in listed
    assert "file:///project/" in listed
    assert "kettle.log" not in listed
    assert "0009" in row
    assert "340000000000009" not in row
    assert lines.startswith("1. Fill the kettle.")
    assert "secret" in explained
    assert not Path(sources[0]).parent.exists()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, None])
def test_the_demonstration_is_served_and_removed(
    end: signal.Signals | None, tmp_path: Path, interrupts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "TMPDIR", str(tmp_path))
    with connected("--demo") as client:
        assert {"sqlite://shop", "file:///project"} <= set(client.listed())
        assert len(list(tmp_path.iterdir())) == 1
        if end is None:
            assert client.end() == []
        else:
            client.process.send_signal(end)
            client.process.wait(PATIENCE_S)
    assert list(tmp_path.iterdir()) == []


def test_at_a_terminal_it_says_what_to_try_over_http_too() -> None:
    terminal, end = pty.openpty()
    command = serve_command("--demo", "--http", "127.0.0.1:0")
    with subprocess.Popen(command, stderr=end) as process:
        os.close(end)
        seen = b""
        while b"why a file is hidden" not in seen:
            seen += os.read(terminal, 65536)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    os.close(terminal)
    assert b"resource-server: serving at http://127.0.0.1:" in seen
    assert b"resource-server install HOST --http http://127.0.0.1:" in seen


def test_a_demonstration_has_no_sources(run: Run, tmp_path: Path) -> None:
    done = run("serve", "--demo", tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "--demo takes the place of SOURCE" in done.err
