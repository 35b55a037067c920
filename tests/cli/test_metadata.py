from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run

README = "file:///project/README.md"


def test_metadata_is_printed_in_two_columns(run: Run, folder: Path) -> None:
    done = run("metadata", folder, README)
    facts = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert (done.status, done.err) == (0, "")
    assert facts["uri"] == README
    assert facts["type"] == "document"
    assert facts["size"] == "10 bytes"
    assert facts["modified"].endswith("Z")


def test_json_is_the_entry_of_the_listing(run: Run, folder: Path) -> None:
    described = json.loads(run("metadata", folder, README, "--json").out)
    listed = [json.loads(line) for line in run("list", folder, "--json").out.splitlines()]
    assert described in listed


def test_terminal_control_characters_in_a_name_are_escaped(run: Run, folder: Path) -> None:
    (folder / "a\x1b[31m.txt").touch()
    done = run("metadata", folder, "file:///project/a%1B%5B31m.txt")
    assert "\x1b" not in done.out
    assert r"a\x1b[31m.txt" in done.out
