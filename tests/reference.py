"""Generated sections of the docs; `python -m tests.reference` writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import click

from resource_server.cli.program import program
from resource_server.manifest.schema import manifest_schema
from resource_server.providers.database.engines.generic.dialects import DIALECTS

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {
    "manifest reference": DOCS / "manifest.md",
    "command reference": DOCS / "commands.md",
    "dialects": DOCS / "databases.md",
}
"""Each generated section, and the page that holds it."""
Section: TypeAlias = tuple[str, str, list[str]]
_TABLE = ("| option | default | what it does |", "| --- | --- | --- |")


def generate(section: str) -> str:
    """Return the Markdown of one section."""
    made = {"manifest reference": _manifest, "command reference": _commands, "dialects": _dialects}
    return made[section]()


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


def _dialects() -> str:
    lines = ["| database | URL | package | state |", "| --- | --- | --- | --- |"]
    for name, each in DIALECTS.items():
        urls = [f"{name}+{driver}" if driver else name for driver in each.drivers]
        packages = [f"`{package}`" for package in each.drivers.values()]
        written = ", ".join(f"`{url}://`" for url in urls)
        is_one_of = each.status == "tested" and len(urls) > 1
        state = each.fails or (f"tested, with {packages[0]}" if is_one_of else each.status)
        lines.append(f"| {each.title} | {written} | {', '.join(packages)} | {state} |")
    return "\n".join([*lines, ""])


def _manifest() -> str:
    root = manifest_schema()
    lines = ["A manifest has these sections:", "", *_TABLE]
    for name, option in root["properties"].items():
        lines.append(_row(name, option, _resolve(root, option)))
    for title, described, rows in manifest_sections(root):
        lines += ["", f"### `{title}`", "", described, "", *_TABLE, *rows]
    return "\n".join([*lines, ""])


def manifest_sections(root: dict[str, Any]) -> Iterator[Section]:
    """Yield every mapping of options in the manifest: its title, description and rows."""
    for name, option in root["properties"].items():
        for variant in _variants(root, option):
            yield from _section(root, name, option, variant)
            yield from _inner(root, name, option, variant)


def _section(
    root: dict[str, Any], title: str, option: dict[str, Any], node: dict[str, Any]
) -> Iterator[Section]:
    """Yield the section of a mapping, if it has options of its own, and those in its options."""
    rows: list[str] = []
    inner: list[Section] = []

    def collect(name: str, option: dict[str, Any]) -> None:
        rows.append(_row(name, option, _resolve(root, option)))
        for variant in _variants(root, option):
            for below, each in variant.get("properties", {}).items():
                collect(f"{name}.{below}", each)
            inner.extend(_inner(root, f"{title}.{name}", option, variant))

    for name, each in node.get("properties", {}).items():
        collect(name, each)
    if rows:
        yield title, option.get("description", ""), rows
    yield from inner


def _inner(
    root: dict[str, Any], title: str, option: dict[str, Any], node: dict[str, Any]
) -> Iterator[Section]:
    """Yield the sections of what stands below each name of a mapping, or in each item of a list."""
    for key, mark in (("additionalProperties", ".NAME"), ("items", "[]")):
        if isinstance(node.get(key), dict):
            for variant in _variants(root, node[key]):
                of_kind = f" {variant['title']}" if "title" in variant else ""
                yield from _section(root, f"{title}{mark}{of_kind}", option, variant)


def _variants(root: dict[str, Any], option: dict[str, Any]) -> Iterator[dict[str, Any]]:
    resolved = _resolve(root, option)
    yield resolved
    alternatives = [resolved[key] for key in ("else", "then") if key in resolved]
    for each in (*alternatives, *resolved.get("anyOf", ())):
        yield from _variants(root, each)


def _row(name: str, option: dict[str, Any], resolved: dict[str, Any]) -> str:
    default = resolved.get("default")
    shown_default = "" if default in (None, "") else f"`{_yaml(default)}`"
    described = option.get("description") or resolved.get("description", "")
    return f"| `{name}` | {shown_default} | {' '.join(described.split())} |"


def _yaml(value: Any) -> str:
    """Return a default as it is written in the manifest."""
    if isinstance(value, str) and not set(value) & set("*{}[]:,#"):
        return value
    return json.dumps(value)


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
