"""What `check` says of prompts: what they ask for, and what of it is not there."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Outcome, Run

ROOTS = "roots:\n  project: {path: ., directories: {docs/deep: {readable: false}}}\n"


def check(run: Run, folder: Path, prompts: str, *options: str) -> Outcome:
    (folder / "mcp-resources.yaml").write_text(f"{ROOTS}prompts:\n{prompts}", "utf-8")
    return run("check", folder, *options)


def mistakes(run: Run, folder: Path, prompts: str) -> list[str]:
    done = check(run, folder, prompts, "--json")
    found = [
        mistake for each in json.loads(done.out)["prompts"] for mistake in each.get("mistakes", ())
    ]
    assert done.status == (1 if found else 0)
    return [each.partition("mcp-resources.yaml:")[2] for each in found]


def test_a_prompt_is_reported_with_what_it_asks_for(run: Run, folder: Path) -> None:
    prompts = (
        "  hello:\n    title: Say hello\n    arguments: {who: {required: true}, how: }\n"
        "    messages: [{text: '{how} {who}'}]\n"
    )
    done = check(run, folder, prompts)
    assert done.status == 0
    expected = "hello  prompt\n  title      Say hello\n  arguments  who (required), how\n"
    assert expected in done.out
    (report,) = json.loads(check(run, folder, prompts, "--json").out)["prompts"]
    assert report == {
        "name": "hello",
        "title": "Say hello",
        "arguments": ["who", "how"],
        "required": ["who"],
        "mistakes": [],
    }


def test_a_resource_that_cannot_be_read_is_a_mistake_whatever_its_plugin_raises(
    run: Run, folder: Path
) -> None:
    plugin = "import asyncio\nclass Mine:\n    templates = ()\n"
    for name in ("list", "metadata", "read"):
        plugin += f"    def {name}(self, *_, **__): raise asyncio.CancelledError\n"
    (folder / "mine.py").write_text(plugin, "utf-8")
    prompts = "  p: {messages: [{resource: 'resource://mine/x'}]}\n"
    (folder / "mcp-resources.yaml").write_text(
        f"providers: {{mine: {{use: mine.py}}}}\nprompts:\n{prompts}", "utf-8"
    )
    done = run("check", folder)
    assert done.status == 1
    assert "cannot be read; -v shows why: resource://mine/x" in done.out


def test_a_resource_that_is_not_there_is_a_mistake_where_it_stands(run: Run, folder: Path) -> None:
    prompts = (
        "  p:\n    messages:\n"
        "      - {resource: 'file:///project/README.md'}\n"
        "      - {resource: 'file:///project/REDME.md'}\n"
        "      - {resource: 'file:///project/.env'}\n"
        "      - {resource: 'file:///project/docs/deep/note.txt'}\n"
        "      - {resource: 'file:///project/docs'}\n"
    )
    absent = "resource not found: file:///project"
    assert mistakes(run, folder, prompts) == [
        f"7:20: prompts.p.messages[1].resource: {absent}/REDME.md",
        f"8:20: prompts.p.messages[2].resource: {absent}/.env",
        f"9:20: prompts.p.messages[3].resource: {absent}/docs/deep/note.txt",
    ]


def test_a_resource_of_arguments_is_looked_for_with_their_defaults(run: Run, folder: Path) -> None:
    prompts = (
        "  p:\n    arguments: {a: {required: true}, b: {default: none.md}}\n    messages:\n"
        "      - {resource: 'file:///project/{a}'}\n"
        "      - {resource: 'file:///project/{b}'}\n"
    )
    assert mistakes(run, folder, prompts) == [
        "8:20: prompts.p.messages[1].resource: resource not found: file:///project/none.md"
    ]


def test_an_argument_for_which_nothing_is_suggested_is_a_mistake(run: Run, folder: Path) -> None:
    prompts = (
        "  p:\n    arguments:\n"
        "      a: {complete: 'file:///project/docs/{a}'}\n"
        "      b: {complete: 'file:///project/README.md{?lines}'}\n"
        "      c: {complete: 'file:///project/README.md{?line}'}\n"
        "    messages: [{text: x}]\n"
    )
    assert mistakes(run, folder, prompts) == [
        "8:21: prompts.p.arguments.c.complete: matches no template of its mount, "
        "so nothing is suggested"
    ]


def test_what_cannot_serve_now_is_no_mistake_of_the_prompt(run: Run, folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        "roots: {gone: {path: nowhere}}\n"
        "prompts: {p: {arguments: {a: {complete: 'file:///gone/x{?none}'}},"
        " messages: [{resource: 'file:///gone/a'}]}}\n",
        "utf-8",
    )
    (report,) = json.loads(run("check", folder, "--json").out)["prompts"]
    assert report["mistakes"] == []
