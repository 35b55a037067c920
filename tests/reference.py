"""Generated sections of the docs; `python -m tests.reference` writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from resource_server.cli.program import program
from resource_server.manifest.schema import manifest_schema

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {"manifest reference": DOCS / "manifest.md", "command reference": DOCS / "commands.md"}
"""Each generated section, and the page that holds it."""


def generate(section: str) -> str:
    """Return the Markdown of one section."""
    return _manifest() if section == "manifest reference" else _commands()


def shown(section: str, page: Path) -> str:
    """Return the text between the marks of a section."""
    match = re.search(_marks(section), page.read_text(), re.DOTALL)
    assert match is not None, f"{page.name} has no marks for {section}"
    return match.group(2)


def write(section: str, page: Path, text: str) -> None:
    """Replace the text between the marks of a section."""
    pattern = _marks(section)
    page.write_text(
        re.sub(pattern, lambda m: m[1] + text + m[3], page.read_text(), flags=re.DOTALL)
    )


def _marks(section: str) -> str:
    return rf"(<!-- {section} -->\n)(.*?)(<!-- end of {section} -->)"


def _manifest() -> str:
    root = manifest_schema()
    lines: list[str] = []
    for title, path in (
        ("Under `server`", "server"),
        ("Under each name in `roots`", "roots.*"),
        ("Under each path in a root's `directories`", "roots.*.directories.*"),
        ("Under each name in `databases`", "databases.*"),
        ("Under each name or pattern in a database's `tables`", "databases.*.tables.*"),
        ("Under each name in a database's `queries`", "databases.*.queries.*"),
        ("Under each name in a query's `parameters`", "databases.*.queries.*.parameters.*"),
        ("Under each name in `providers`", "providers.*"),
        ("Under `tools`", "tools"),
        ("Under `http`", "http"),
        ("Under `http.auth`", "http.auth"),
        ("Under each name in `prompts`", "prompts.*"),
        ("Under each name in a prompt's `arguments`", "prompts.*.arguments.*"),
        ("In each of a prompt's `messages`", "prompts.*.messages.[]"),
    ):
        lines += [f"{title}:", "", "| option | default | what it does |", "| --- | --- | --- |"]
        properties = _at(root, path.split(".")).get("properties", {})
        lines += _rows(root, properties)
        lines.append("")
    return "\n".join(lines)


def _rows(root: dict[str, Any], properties: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, option in properties.items():
        resolved = _resolve(root, option)
        default = resolved.get("default")
        shown_default = "" if default is None else f"`{_yaml(default)}`"
        described = option.get("description") or resolved.get("description", "")
        yield f"| `{above}{name}` | {shown_default} | {' '.join(described.split())} |"
        for variant in (resolved, *(_resolve(root, each) for each in resolved.get("anyOf", ()))):
            yield from _rows(root, variant.get("properties", {}), f"{above}{name}.")


def _yaml(value: Any) -> str:
    """Return a default as it is written in the manifest."""
    if isinstance(value, str) and not set(value) & set("*{}[]:,#"):
        return value
    return json.dumps(value)


def _at(root: dict[str, Any], path: list[str]) -> dict[str, Any]:
    node = root
    for name in path:
        node = _resolve(root, node)
        if name == "[]":
            node = node["items"]
        else:
            node = node["additionalProperties"] if name == "*" else node["properties"][name]
        # An option that may also be `false`: take the variant with properties.
        node = next((each for each in node.get("anyOf", ()) if "properties" in each), node)
    return _resolve(root, node)


def _resolve(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node:
        target: dict[str, Any] = root
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def _commands() -> str:
    context = click.Context(program, info_name="resource-server")
    lines = ["| command | what it does |", "| --- | --- |"]
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))
        lines.append(f"| `{name} {usage}` | {command.get_short_help_str(limit=200)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    for section, page in PAGES.items():
        write(section, page, generate(section))
