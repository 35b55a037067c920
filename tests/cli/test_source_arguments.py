"""Arguments that commands share: the source and the URIs."""

from __future__ import annotations

from pathlib import Path

from resource_server.cli import source_arguments
from tests.cli.conftest import Run


def test_a_uri_argument_that_is_not_utf_8_keeps_its_bytes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a\udcff.txt").write_text("found", "utf-8")
    (base,) = (run("list", tmp_path).out.split()[0],)
    assert run("read", tmp_path, f"{base}a\udcff.txt").out == "found"


def test_the_source_comes_before_the_uris(tmp_path: Path) -> None:
    folder = str(tmp_path)
    split = source_arguments.split_source_and_uris
    assert split([]) == (None, [])
    assert split([folder]) == (folder, [])
    assert split([folder, "file:///a/x"]) == (folder, ["file:///a/x"])
    assert split(["file:///a/x", "file:///a/y"]) == (None, ["file:///a/x", "file:///a/y"])
    assert split(["misspelt", "file:///a/x"]) == ("misspelt", ["file:///a/x"])


def test_bytes_of_a_typed_uri_are_percent_encoded() -> None:
    assert source_arguments.typed_uri("file:///a/x\udcff.txt") == "file:///a/x%FF.txt"
    assert source_arguments.typed_uri("file:///a/grüße") == "file:///a/grüße"
