"""The manifest's section `tools`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from resource_server.errors import ManifestError
from resource_server.manifest.load import load
from resource_server.manifest.model import Tools
from resource_server.manifest.schema import manifest_schema


def tools(folder: pathlib.Path, text: str) -> Tools:
    file = folder / "mcp-resources.yaml"
    file.write_text(f"roots:\n  a: {{path: .}}\n{text}", "utf-8")
    return load(file).tools


def problem(folder: pathlib.Path, text: str) -> str:
    with pytest.raises(ManifestError) as refused:
        tools(folder, text)
    (diagnostic,) = refused.value.diagnostics
    return str(diagnostic).partition("mcp-resources.yaml:")[2]


@pytest.mark.parametrize("text", ["", "tools:\n", "tools: {}\n", "tools: true\n"])
def test_tools_are_enabled_by_default(tmp_path: pathlib.Path, text: str) -> None:
    assert tools(tmp_path, text) == Tools(enabled=True, search=True, queries=True, prefix="")


@pytest.mark.parametrize("text", ["tools: false\n", "tools: {enabled: false}\n"])
def test_either_form_disables_all_tools(tmp_path: pathlib.Path, text: str) -> None:
    assert not tools(tmp_path, text).enabled


def test_every_option_is_read(tmp_path: pathlib.Path) -> None:
    found = tools(tmp_path, "tools: {search: false, queries: false, prefix: acme_}\n")
    assert found == Tools(search=False, queries=False, prefix="acme_")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tools: 5", "3:8: tools: expected a mapping, found the number 5"),
        ("tools: off-", "3:8: tools: expected a mapping, found 'off-'"),
        ("tools: [search]", "3:8: tools: expected a mapping, found a list"),
        ("tools: {serch: true}", "3:9: tools.serch: unknown option; did you mean 'search'?"),
        (
            "tools: {prefix: 'a b'}",
            "3:17: tools.prefix: expected text that matches ^[A-Za-z0-9_.-]{0,64}$, found 'a b'",
        ),
        ("tools: {search: often}", "3:17: tools.search: expected true or false, found 'often'"),
    ],
)
def test_a_mistake_is_reported_at_its_position(
    tmp_path: pathlib.Path, text: str, told: str
) -> None:
    assert problem(tmp_path, text) == told


def test_the_schema_for_editors_finds_the_same_mistakes() -> None:
    validator: Any = Draft202012Validator(json.loads(json.dumps(manifest_schema())))
    for value in (True, False, {}, {"search": False, "prefix": "a_"}):
        assert validator.is_valid({"roots": {"a": {"path": "."}}, "tools": value})
    mistakes: list[Any] = [5, [], {"serch": True}, {"prefix": "a b"}]
    for value in mistakes:
        assert not validator.is_valid({"roots": {"a": {"path": "."}}, "tools": value})
