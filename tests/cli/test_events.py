from __future__ import annotations

import contextlib
import io
import sys

import pytest

from resource_server.cli.events import Events


def test_events_go_to_standard_output_while_it_is_another_stream(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # As it is for the whole process while a plugin is imported in a thread.
    events = Events(as_json=False)
    with contextlib.redirect_stdout(sys.stderr):
        events.tell("added", "test://one/a")
    out, err = capsys.readouterr()
    assert out.endswith("  added    test://one/a\n")
    assert err == ""


def test_what_would_steer_a_terminal_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    Events(as_json=False).tell("removed", "test://one/\x1b[31m\u202e")
    assert capsys.readouterr().out.endswith("  removed  test://one/\\x1b[31m\\u202e\n")


def test_json_is_utf_8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    Events(as_json=True).tell("changed", "test://one/ü")
    assert written.getvalue().startswith('{"event":"changed","uri":"test://one/ü",'.encode())
