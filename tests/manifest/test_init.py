from __future__ import annotations

import pathlib
import re

import pytest

from resource_server.manifest import init
from resource_server.manifest.load import load


@pytest.mark.parametrize(
    "folder",
    [
        "project",
        "my project",
        '"quo\'ted"',
        "😀: {x}",
        "a\nb\x7f\u2028",
        "2024",
        "null",
        "-",
        "${HOME}",
        "a\\b",
    ],
)
def test_what_init_writes_loads_without_a_diagnostic(tmp_path: pathlib.Path, folder: str) -> None:
    path = tmp_path / folder
    path.mkdir()
    (path / "mcp-resources.yaml").write_text(init.write(path), encoding="utf-8")
    manifest = load(path / "mcp-resources.yaml")
    (spec,) = manifest.mounts
    assert spec.options == {"path": "."}
    assert spec.title == "".join(c if c.isprintable() else "\ufffd" for c in folder)


def test_what_init_has_in_comments_loads_as_well(tmp_path: pathlib.Path) -> None:
    text = init.write(tmp_path)
    start = text.index("    # exclude")
    options = re.sub("^    # ", "    ", text[start:], flags=re.MULTILINE)
    (tmp_path / "mcp-resources.yaml").write_text(text[:start] + options)
    (spec,) = load(tmp_path / "mcp-resources.yaml").mounts
    assert list(spec.options) == [
        "path",
        "exclude",
        "gitignore",
        "hidden",
        "max_size",
        "directories",
    ]


def test_the_first_line_names_the_schema_for_editors(tmp_path: pathlib.Path) -> None:
    first, second, *_ = init.write(tmp_path).splitlines()
    assert first == "# yaml-language-server: $schema=./mcp-resources.schema.json"
    assert second.endswith("resource-server schema > mcp-resources.schema.json")
