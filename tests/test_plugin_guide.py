"""Everything that the guide for authors of providers shows is run or read here."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from resource_server import plugins
from resource_server import provider as contract
from resource_server.errors import ManifestError
from resource_server.manifest.provider_references import GROUP
from resource_server.protocol.client_features.client_roots import RootsRequest
from resource_server.protocol.client_features.elicitation_form import Elicitation
from resource_server.protocol.client_features.request_state import MAX_STATE_CHARACTERS
from resource_server.protocol.client_features.sampling import Sampling
from resource_server.protocol.client_features.server_requests import MAX_OPEN
from resource_server.provider import Change, SupportsWatch, document_tree
from resource_server.provider import Path as Member
from resource_server.runtime.timing import DEFAULT_TIMING
from resource_server.subscriptions.interest import MountInterest
from resource_server.testing import check_provider, client
from tests.protocol.wire import Wire, server_of
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "plugins/README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


SIMPLE, PROVIDER, OPTIONS, TOOLS, ASKING, TESTS = blocks("python")
TERMS, PROJECT = blocks("toml")
SIMPLE_MANIFEST, MANIFEST, VALUES = blocks("yaml")
SIMPLE_TRANSCRIPT, TRANSCRIPT = blocks("console")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder that holds what the guide tells to save."""
    (tmp_path / "glossary.py").write_text(PROVIDER, "utf-8")
    (tmp_path / "terms.toml").write_text(TERMS, "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST, "utf-8")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """Return what the terminal would show."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout


def transcripts(block: str) -> list[tuple[str, str]]:
    """Return each command shown after a `$` with the output shown below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def test_every_block_of_the_guide_is_used() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "toml", "yaml", "console"}


def test_every_ability_and_exception_of_the_contract_is_in_the_guide() -> None:
    exported = [name for name in contract.__all__ if name.startswith("Supports")]
    exported += [
        name
        for name in contract.__all__
        if isinstance(found := getattr(contract, name), type) and issubclass(found, Exception)
    ]
    assert exported
    assert [name for name in exported if f"`{name}`" not in GUIDE] == []


@pytest.mark.anyio
async def test_the_provider_is_loaded_from_its_manifest_and_keeps_the_contract(
    folder: Path,
) -> None:
    manifest = plugins.find_with_plugins(str(folder))
    [spec] = manifest.mounts
    await check_provider(plugins.load_provider(spec, manifest))


def save(file: Path, text: str) -> None:
    """Write a file so that nobody sees half of it."""
    beside = file.with_suffix(".new")
    beside.write_text(text, "utf-8")
    beside.replace(file)


class Impatient(MountInterest):
    """Has the file looked at more often than once a second."""

    async def next(self, within: float | None = None) -> tuple[Set[Member], Set[Member]]:
        return await super().next(within and 0.02)


@pytest.mark.anyio
async def test_the_provider_reports_new_terms_but_not_new_texts_to_listings(
    folder: Path,
) -> None:
    manifest = plugins.find_with_plugins(str(folder))
    [spec] = manifest.mounts
    provider = plugins.load_provider(spec, manifest)
    assert isinstance(provider, SupportsWatch)
    interest = Impatient()
    interest.listing = True
    interest.add(("billing", "dunning"))
    changes = provider.changes(interest)
    dunning = Change(("billing", "dunning"))
    begun = {await anext(changes) for _ in range(4)}
    collections: list[Member] = [(), ("billing",), ("shipping",)]
    assert begun == {dunning, *(Change(path, "children") for path in collections)}
    other = TERMS.replace("three times", "four times")
    save(folder / "terms.toml", other)
    assert await anext(changes) == dunning
    save(folder / "terms.toml", f'{other}\ninvoice = "What is owed."\n')
    assert [await anext(changes), await anext(changes)] == [
        dunning,
        Change(("billing",), "children"),
    ]


@pytest.mark.parametrize(("command", "output"), transcripts(TRANSCRIPT))
def test_a_documented_command_prints_the_documented_output(
    folder: Path, command: str, output: str
) -> None:
    program, *arguments = shlex.split(command)
    assert program == "resource-server"
    assert run(folder, "-m", "resource_server", *arguments).rstrip() == output.rstrip()


@pytest.mark.anyio
async def test_the_ten_lines_are_served_as_documented_and_keep_the_contract(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(SIMPLE, "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text(SIMPLE_MANIFEST, "utf-8")
    (tmp_path / "diary").mkdir()
    (tmp_path / "diary/2026-01-31.md").write_text("# Today\n", "utf-8")
    for command, output in transcripts(SIMPLE_TRANSCRIPT):
        shown = run(tmp_path, "-m", "resource_server", *shlex.split(command)[1:])
        assert shown.rstrip() == output.rstrip()
    manifest = plugins.find_with_plugins(str(tmp_path))
    await check_provider(plugins.load_provider(manifest.mounts[0], manifest))
    function = SIMPLE.partition("@documents")[2]
    assert len(function.splitlines()) + 1 <= 10


def test_the_documented_bounds_of_the_simple_form_are_those_in_force() -> None:
    bounds = document_tree.MAX_DOCUMENTS, document_tree.MAX_DOCUMENT_BYTES, document_tree.MAX_BYTES
    assert bounds == (1_000_000, 10 << 20, 1 << 30)
    guide = " ".join(GUIDE.split())
    assert "more than 1,000,000 documents, 10 MiB in one or 1 GiB in all" in guide


def configured(folder: Path, values: str) -> Any:
    """Return the shown provider, made with the shown options as well."""
    class_of_both = "@dataclass\nclass Configured(Options, Glossary):\n    pass\n"
    (folder / "glossary.py").write_text(f"{PROVIDER}\n{OPTIONS}\n{class_of_both}", "utf-8")
    text = MANIFEST.replace("glossary.py", "glossary.py:Configured")
    (folder / "mcp-resources.yaml").write_text(text + textwrap.indent(values, " " * 4), "utf-8")
    manifest = plugins.find_with_plugins(str(folder))
    return plugins.load_provider(manifest.mounts[0], manifest)


def test_the_options_of_the_guide_are_read_as_documented(folder: Path) -> None:
    provider = configured(folder, VALUES)
    assert provider.folder == folder / "data"
    assert (provider.login.user, provider.login.password) == ("reader", "none")
    assert (provider.order, provider.tags, provider.max_size) == ("newest", ("public",), 65536)


def test_an_error_of_post_init_is_reported_at_its_option(folder: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        configured(folder, f"{VALUES}timeout_s: -1\n")
    [problem] = caught.value.diagnostics
    assert problem.where == "providers.glossary.timeout_s"
    assert problem.message == "write a number above 0"


def test_the_tests_of_the_guide_pass(folder: Path) -> None:
    (folder / "test_glossary.py").write_text(TESTS, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", "utf-8")
    out = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "3 passed" in out, out


def test_the_package_registers_the_provider_as_an_entry_point() -> None:
    project = tomllib.loads(PROJECT)["project"]
    assert list(project["entry-points"]) == [GROUP]
    [reference] = project["entry-points"][GROUP].values()
    assert reference.endswith(":Glossary")


def tooled(folder: Path, *methods: str) -> Any:
    """Return the provider of the guide with these methods."""
    file = folder / "tooled.py"
    body = textwrap.indent("\n".join(methods), "    ")
    imports = "import asyncio\nfrom resource_server.provider.tools import *\n"
    file.write_text(f"{PROVIDER}\n{imports}class Tooled(Glossary):\n{body}", "utf-8")
    return runpy.run_path(str(file))["Tooled"](folder / "terms.toml")


@pytest.mark.anyio
async def test_the_documented_tool_finds_terms_and_keeps_the_contract(folder: Path) -> None:
    glossary = tooled(folder, TOOLS)
    await check_provider(glossary)
    async with client(glossary, base="terms://acme/") as connected:
        asked = {"name": "define", "arguments": {"word": "dunn"}}
        found = await connected.request("tools/call", asked)
        assert [block["uri"] for block in found["content"]] == ["terms://acme/billing/dunning"]
        asked["arguments"] = {"word": "zzz"}
        assert (await connected.request("tools/call", asked))["isError"]


ANSWERS: dict[str, Any] = {
    "elicitation/create": {"action": "accept", "content": {"reader": "a customer"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "We ask again."},
        "model": "m",
    },
    "roots/list": {"roots": [{"uri": "file:///shop", "name": "Shop"}]},
}
CALL: dict[str, Any] = {"name": "define", "arguments": {"word": "dunning"}}


async def wired(folder: Path, revision: str, can: dict[str, Any]) -> Wire:
    return Wire(await server_of(tooled(folder, TOOLS, ASKING)), revision, can=can)


@pytest.mark.anyio
async def test_the_documented_tool_asks_the_client_in_two_rounds(folder: Path) -> None:
    wire = await wired(folder, "2026-07-28", {"elicitation": {}, "sampling": {}, "roots": {}})
    params, rounds = CALL, list[list[str]]()
    result = await wire.result("tools/call", params)
    while result["resultType"] == "input_required":
        asked = result["inputRequests"]
        rounds.append([each["method"] for each in asked.values()])
        answers = {key: ANSWERS[each["method"]] for key, each in asked.items()}
        params = {**CALL, "inputResponses": answers, "requestState": result["requestState"]}
        result = await wire.result("tools/call", params)
    assert rounds == [["elicitation/create", "roots/list"], ["sampling/createMessage"]]
    assert result["content"][0]["text"] == "We ask again."
    assert result["content"][1]["uri"] == "test://one/billing/dunning"


@pytest.mark.anyio
async def test_the_documented_tool_asks_a_client_with_a_session(folder: Path) -> None:
    wire = await wired(folder, "2025-11-25", {"elicitation": {}, "sampling": {}, "roots": {}})
    call = wire.start("tools/call", CALL)
    for number in (1, 2, 3):
        question = await wire.asked(number)
        wire.answer(question, ANSWERS[question["method"]])
    prompt = wire.questions[2]["params"]["messages"][0]["content"]["text"]
    assert prompt.endswith("Explain it to a customer who works on Shop.")
    reply = await wire.reply_to(call)
    assert reply["result"]["content"][0]["text"] == "We ask again."


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_documented_tool_does_without_what_the_client_lacks(
    folder: Path, revision: str
) -> None:
    wire = await wired(folder, revision, {"elicitation": {}})
    result = await wire.result("tools/call", CALL)
    assert [each["text"] for each in result["content"]] == ["dunning: Asking again, three times."]


def test_the_documented_limits_are_those_in_force() -> None:
    assert (Elicitation.max_answer_bytes, Sampling.max_answer_bytes) == (64 << 10, 1 << 20)
    assert (RootsRequest.max_answer_bytes, MAX_STATE_CHARACTERS) == (256 << 10, 256 << 10)
    assert (MAX_OPEN, DEFAULT_TIMING.elicitation_timeout_s) == (8, 600)
    assert DEFAULT_TIMING.roots_timeout_s == 10
