from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

NAME = "mcp-resources.yaml"


def test_a_manifest_is_written_that_serves_the_folder(run: Run, folder: Path) -> None:
    before = run("list", folder, "--json").out
    done = run("init", folder)
    assert (done.status, done.out, done.err) == (0, f"wrote {folder / NAME}\n", "")
    (folder / NAME).rename(folder.parent / "moved.yaml")
    (folder.parent / "moved.yaml").rename(folder / NAME)
    after = run("list", folder, "--json").out
    assert [json.loads(line)["uri"] for line in before.splitlines()] == [
        uri for line in after.splitlines() if not (uri := json.loads(line)["uri"]).endswith(NAME)
    ]


def test_a_manifest_that_is_there_is_not_overwritten(run: Run, folder: Path) -> None:
    (folder / NAME).write_text("mine", "utf-8")
    done = run("init", folder)
    assert (done.status, done.out) == (1, "")
    assert "--force" in done.err
    assert (folder / NAME).read_text("utf-8") == "mine"


def test_a_manifest_is_overwritten_by_force(run: Run, folder: Path) -> None:
    (folder / NAME).write_text("mine", "utf-8")
    assert run("init", folder, "--force").status == 0
    assert run("check", folder).status == 0


def test_a_manifest_is_printed_instead(run: Run, folder: Path) -> None:
    done = run("init", folder, "--output", "-")
    assert done.status == 0
    assert "roots:" in done.out
    assert not (folder / NAME).exists()


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["missing"], 1),
        (["README.md"], 1),
        ([".", "--output", "../x.yaml"], 2),
        ([".", "--output", "docs"], 1),
    ],
)
def test_what_cannot_be_written_is_one_line(
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
) -> None:
    monkeypatch.chdir(folder)
    done = run("init", *arguments, "--force")
    assert (done.status, done.out) == (status, "")
    assert done.err.count("\n") == 1


def test_the_schema_is_json_that_knows_the_sections(run: Run) -> None:
    done = run("schema")
    assert (done.status, done.err) == (0, "")
    assert {"server", "roots", "providers"} <= set(json.loads(done.out)["properties"])
