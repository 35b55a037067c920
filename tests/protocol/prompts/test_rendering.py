from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result

from resource_server import uris
from resource_server.access import Caller, acting
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.errors import (
    DeadlineExceeded,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
)
from resource_server.manifest.prompts import Prompt, PromptArgument, PromptMessage
from resource_server.protocol.prompts.rendering import (
    MAX_MESSAGE_CHARACTERS,
    filled_uri,
)
from resource_server.protocol.server import Server, ServerLimits
from resource_server.provider import Provider
from tests.cases import for_each
from tests.protocol.prompts.serving import folder_server, got, reading, server_of
from tests.protocol.wire import EVERY, MODERN, Wire
from tests.providers_for_tests import Gate, Leaf, SlowTree, Tree
from tests.test_bad_input import TRAVERSALS

pytestmark = pytest.mark.anyio

NODES: dict[str, Any] = {
    "a b.txt": "one\ntwo\n",
    "100%.txt": "percent",
    "what?.txt": "question",
    "logo": Leaf(b"\x89PNG", "image/png"),
    "tone": Leaf(b"RIFF", "audio/wav"),
    "blob": b"\x00\xff",
    "folder": {"b.txt": "b", "a.txt": "a", "logo": Leaf(b"\x89PNG", "image/png"), "deep": {}},
    "empty": {},
    "formats": Leaf("x", formats={"html": "<p>x</p>"}),
}
ANY = "test://one/{+file}"


def contents(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [message["content"] for message in result["messages"]]


def texts(result: dict[str, Any]) -> list[str]:
    """Return the words of each message, whether said or embedded."""
    return [each.get("text", each.get("resource", {}).get("text")) for each in contents(result)]


async def wire_of(
    prompts: Mapping[str, Prompt], *providers: Provider, revision: str = "2025-11-25"
) -> Wire:
    return Wire(await server_of(prompts, *providers), revision)


def saying(*said: str, **arguments: PromptArgument) -> Prompt:
    messages = tuple(PromptMessage(text=text) for text in said)
    return Prompt(arguments=arguments, messages=messages)


# -- texts


@for_each("revision", EVERY)
@for_each("tree", [Tree, SlowTree])
@for_each("file", sorted(NODES))
async def test_the_sdk_accepts_every_prompt(revision: str, tree: type[Tree], file: str) -> None:
    wire = await wire_of(reading(ANY, "Read {file}."), tree(NODES), revision=revision)
    result = await wire.result(*got(file=file))
    validate_server_result("prompts/get", revision, result)
    assert result["description"] == "reads"
    assert texts(result)[-1] == f"Read {file}."


async def test_messages_are_in_order_with_their_roles() -> None:
    messages = (
        PromptMessage(text="question"),
        PromptMessage(role="assistant", text="answer"),
        PromptMessage(text="thanks"),
    )
    wire = await wire_of({"p": Prompt(messages=messages)})
    result = await wire.result(*got())
    assert [each["role"] for each in result["messages"]] == ["user", "assistant", "user"]
    assert texts(result) == ["question", "answer", "thanks"]
    assert "description" not in result


@for_each(
    "value",
    [
        "{b} {{b}} {",
        "}}{{",
        "${HOME} $(id) `id`",
        "new\nline\r\ttab",
        "file:///etc/passwd",
        "../../etc/passwd",
        "nul\0byte",
        "\u202e right to left \ufeff",
        '"}],"injected":[{"',
        "\U0001f600" * 1000,
        "x" * 1_000_000,
    ],
)
async def test_a_value_in_a_text_is_inserted_verbatim(value: str) -> None:
    prompt = saying("<{a}|{b}>", a=PromptArgument(), b=PromptArgument(default="B"))
    wire = await wire_of({"p": prompt})
    assert texts(await wire.result(*got(a=value))) == [f"<{value}|B>"]


async def test_a_value_with_a_lone_surrogate_is_refused() -> None:
    wire = await wire_of({"p": saying("{a}", a=PromptArgument())})
    message = json.dumps(wire.request(*got(a="x"), 7)).replace('"x"', '"\\ud800"')
    assert wire.ask(message.encode())["error"]["code"] == -32700


async def test_an_oversized_repeated_value_is_refused_before_substitution() -> None:
    prompt = saying("{a}" * 1000, a=PromptArgument())
    wire = await wire_of({"p": prompt})
    error = await wire.error(*got(a="x" * (MAX_MESSAGE_CHARACTERS // 1000 + 1)))
    assert error["code"] == -32602
    assert await wire.result(*got(a="x" * 1000))


async def test_messages_share_one_size_limit() -> None:
    said = tuple(PromptMessage(text="{a}") for _ in range(10))
    prompts = {"p": Prompt(arguments={"a": PromptArgument()}, messages=said)}
    server = await server_of(prompts, server_limits=ServerLimits(prompt_bytes=1000))
    wire = Wire(server, "2025-11-25")
    assert await wire.result(*got(a="x" * 50))
    error = await wire.error(*got(a="x" * 100))
    assert error["code"] == -32602
    assert "longer than 1000 bytes" in error["message"]


async def test_a_value_too_long_for_a_uri_is_refused_before_encoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire = await wire_of(reading(ANY), Tree(NODES))
    monkeypatch.setattr(uris, "expand", None)
    error = await wire.error(*got(file="a/" * 100_000))
    assert error["code"] == -32002
    assert error["message"] == "Argument 'file' is too long for a URI"


@for_each("revision", EVERY)
@for_each(
    "params",
    [
        {},
        {"name": 5},
        {"name": None},
        {"name": "p", "arguments": []},
        {"name": "p", "arguments": "a"},
        {"name": "p", "arguments": {"a": 5}},
        {"name": "p", "arguments": {"a": None}},
        {"name": "p", "arguments": {"a": ["x"]}},
        {"name": "p", "arguments": {"a": {"x": 1}}},
    ],
)
async def test_parameters_of_another_shape_are_refused(
    revision: str, params: dict[str, Any]
) -> None:
    wire = await wire_of({"p": saying("{a}", a=PromptArgument())}, revision=revision)
    assert (await wire.error("prompts/get", params))["code"] == -32602
    for plain in ({"name": "p"}, {"name": "p", "arguments": None}):
        assert texts(await wire.result("prompts/get", plain)) == [""]


@for_each("revision", EVERY)
async def test_unusable_arguments_are_refused(revision: str) -> None:
    wire = await wire_of(reading(ANY), Tree(NODES), revision=revision)
    for asked, words in (
        (got(), "'file' is required"),
        (got(file="blob", fiel=""), "did you mean 'file'?"),
    ):
        error = await wire.error(*asked)
        assert error["code"] == -32602
        assert words in error["message"]


# -- resources


@for_each("revision", EVERY)
async def test_an_embedded_resource_equals_the_result_of_a_read(revision: str) -> None:
    wire = await wire_of(reading(ANY), Tree(NODES), revision=revision)
    result = await wire.result(*got(file="a b.txt"))
    read = await wire.result("resources/read", {"uri": "test://one/a%20b.txt"})
    assert [each["resource"] for each in contents(result)] == read["contents"]
    assert read["contents"][0]["resourceType"] == "document"


@for_each("revision", EVERY)
async def test_images_and_audio_are_shown_and_other_bytes_are_embedded(revision: str) -> None:
    wire = await wire_of(reading(ANY), Tree(NODES), revision=revision)
    kinds = [contents(await wire.result(*got(file=file)))[0] for file in ("logo", "tone", "blob")]
    sound = "resource" if revision == "2024-11-05" else "audio"
    assert [each["type"] for each in kinds] == ["image", sound, "resource"]
    assert base64.b64decode(kinds[0]["data"]) == b"\x89PNG"
    assert base64.b64decode(kinds[2]["resource"]["blob"]) == b"\x00\xff"


@for_each("value", ["a b.txt", "a%20b.txt", "100%.txt", "100%25.txt", "what?.txt", "what%3F.txt"])
async def test_a_path_may_be_plain_or_encoded(value: str) -> None:
    wire = await wire_of(reading(ANY), Tree(NODES))
    (embedded,) = contents(await wire.result(*got(file=value)))
    assert embedded["resource"]["name"] in (value, "a b.txt", "100%.txt", "what?.txt")


async def test_a_value_never_becomes_a_query() -> None:
    wire = await wire_of(reading(ANY), Tree(NODES))
    for value in ("formats?format=html", "a b.txt?lines=1", "a b.txt#x", "formats%3Fformat=html"):
        assert (await wire.error(*got(file=value)))["code"] == -32002


async def test_a_query_parameter_of_the_template_accepts_any_value() -> None:
    prompt = reading("test://one/formats{?format}", arguments={"format": PromptArgument()})
    wire = await wire_of(prompt, Tree(NODES))
    assert texts(await wire.result(*got())) == ["x"]
    assert texts(await wire.result(*got(format="html"))) == ["<p>x</p>"]
    error = await wire.error(*got(format="html&lines=1"))
    assert (error["code"], error["message"]) == (-32602, "No format 'html&lines=1'")


async def test_a_segment_variable_accepts_any_single_name() -> None:
    nodes = {"folder": {"a b": "x", "%41": "y"}, "other": "z"}
    wire = await wire_of(reading("test://one/folder/{file}"), Tree(nodes))
    assert texts(await wire.result(*got(file="a b"))) == ["x"]
    assert texts(await wire.result(*got(file="%41"))) == ["y"]
    for value in ("../other", "..", "a b/", "%2e%2e/other", ".", "\n", "\0", "x" * 1_000_000):
        assert (await wire.error(*got(file=value)))["code"] == -32002


async def test_an_optional_resource_is_left_out_if_its_argument_is_missing() -> None:
    prompts = reading(ANY, "and", arguments={"file": PromptArgument()})
    wire = await wire_of(prompts, Tree(NODES))
    assert texts(await wire.result(*got())) == ["and"]
    assert texts(await wire.result(*got(file=""))) == ["and"]
    assert texts(await wire.result(*got(file="100%.txt"))) == ["percent", "and"]


def test_a_path_segment_without_a_value_is_refused() -> None:
    assert filled_uri("x://m/{table}/{+key}{?format}", {"table": "t"}) is None
    assert filled_uri("x://m/{table}/{+key}{?format}", {"table": "t", "key": "1"}) == "x://m/t/1"


async def test_only_the_preferred_format_is_embedded() -> None:
    server = await server_of(reading(ANY), Tree(NODES), limits=CatalogLimits(alternatives=True))
    wire = Wire(server, "2025-11-25")
    assert texts(await wire.result(*got(file="formats"))) == ["x"]


# -- collections


@for_each("revision", EVERY)
async def test_a_collection_has_a_message_for_each_child(revision: str) -> None:
    wire = await wire_of(reading(ANY, "above"), Tree(NODES), revision=revision)
    result = await wire.result(*got(file="folder"))
    found = contents(result)
    assert [each["type"] for each in found] == ["resource", "resource", "resource", "image", "text"]
    assert [each["resource"]["name"] for each in found[:3]] == ["a.txt", "b.txt", "deep"]
    assert "_meta" not in result or "resource-server/truncated" not in result["_meta"]


@for_each("revision", EVERY)
async def test_a_truncated_collection_is_marked_for_the_model_and_the_client(revision: str) -> None:
    limits = CatalogLimits(collection_children=2)
    server = await server_of(reading(ANY, "after"), Tree(NODES), limits=limits)
    result = await Wire(server, revision).result(*got(file="folder"))
    assert texts(result) == [
        "a",
        "b",
        "There is more in test://one/folder than the 2 above.",
        "after",
    ]
    assert result["_meta"]["resource-server/truncated"] == {"collections": 1, "more": True}


async def test_an_empty_collection_is_reported_as_empty() -> None:
    wire = await wire_of(reading(ANY), Tree(NODES))
    result = await wire.result(*got(file="empty"))
    assert texts(result) == ["There is nothing in test://one/empty."]


async def test_unreadable_children_are_left_out_with_a_note() -> None:
    nodes = {
        "some": {"bad": Leaf("half \ud800"), "good": "good", "odd": Leaf("", mime_type="\ud800")},
        "all": {"bad": Leaf("", raises=ResourceNotFound())},
    }
    wire = await wire_of(reading(ANY), Tree(nodes))
    assert texts(await wire.result(*got(file="some"))) == [
        "good",
        "There is more in test://one/some than the 1 of 3 above.",
    ]
    assert texts(await wire.result(*got(file="all"))) == [
        "Nothing in test://one/all can be given here."
    ]


# -- what cannot be read


@for_each("revision", EVERY)
async def test_a_missing_resource_is_reported_by_its_argument(revision: str) -> None:
    wire = await wire_of(reading(ANY), Tree(NODES), revision=revision)
    assert await wire.error(*got(file="absent")) == {
        "code": -32602 if revision in MODERN else -32002,
        "message": "Argument 'file' names nothing that can be read",
    }


async def test_an_unreadable_resource_is_reported_with_all_of_its_arguments() -> None:
    arguments = {"a": PromptArgument(), "b": PromptArgument()}
    two = reading("test://one/{a}/{b}", arguments=arguments)["p"]
    none = reading("test://one/absent", arguments={})["p"]
    wire = await wire_of({"two": two, "none": none}, Tree(NODES))
    assert (await wire.error(*got("two", a="1", b="2")))["message"] == (
        "'a', 'b' name nothing that can be read"
    )
    error = await wire.error(*got("none"))
    assert error["message"] == "A resource of this prompt cannot be read"
    assert "data" not in error  # What it is may be none of theirs who ask.


@for_each(
    ("raised", "code"),
    [
        (ResourceTooLarge(size=5, limit=1, next={"lines": "1"}), -32010),
        (DeadlineExceeded(), -32011),
        (ResourceBusy(), -32012),
        (RuntimeError("secret"), -32603),
    ],
)
async def test_a_failing_read_returns_the_error_of_resources_read(
    raised: Exception, code: int
) -> None:
    wire = await wire_of(reading(ANY), Tree({"a": Leaf("x", raises=raised)}))
    error = await wire.error(*got(file="a"))
    assert error == await wire.error("resources/read", {"uri": "test://one/a"})
    assert error["code"] == code
    assert "secret" not in str(error)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_no_spelling_of_a_path_escapes_the_root_and_plain_ones_are_read(
    tmp_path: Path, revision: str
) -> None:
    top = tmp_path / "p"
    (top / "docs").mkdir(parents=True)
    (top / "a.txt").write_text("inside\n")
    (top / "docs" / "b.txt").write_text("deeper\n")
    (tmp_path / "secret.txt").write_text("outside\n")
    prompt = (
        "  p: {arguments: {file: }, messages: [{resource: 'file:///p/{+file}'}]}\n"
        "  s: {arguments: {file: }, messages: [{resource: 'file:///p/{file}'}]}\n"
        "  d: {arguments: {file: }, messages: [{resource: 'file:///p/docs/{file}'}]}\n"
    )
    async with folder_server(top, prompt) as server:
        wire = Wire(server, revision)
        for name in ("p", "s", "d"):
            for spelling in TRAVERSALS:
                error = await wire.error(*got(name, file=spelling))
                assert error["code"] == (-32602 if revision in MODERN else -32002), spelling
                assert "outside" not in str(error)
                assert str(tmp_path) not in str(error)
        for plain in ("a.txt", "%61.txt"):
            assert texts(await wire.result(*got(file=plain))) == ["inside\n"]
        assert texts(await wire.result(*got("s", file="a.txt"))) == ["inside\n"]
        assert texts(await wire.result(*got("d", file="b.txt"))) == ["deeper\n"]


SECRETS = (
    ".env",
    ".env.local",
    "server.pem",
    "SERVER.KEY",
    "id_rsa",
    ".ssh/config",
    ".git/config",
    ".aws/credentials",
    "credentials.json",
    "prod.tfstate",
    ".netrc",
    "vault.kdbx",
    "ignored.txt",
    "scratch/note.txt",
    "contracts/supplier.txt",
)


async def test_secrets_are_neither_embedded_nor_suggested(tmp_path: Path) -> None:
    top = tmp_path / "p"
    for name in (*SECRETS, "shown.txt"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("secret" if name != "shown.txt" else "shown")
    (top / ".gitignore").write_text("ignored.txt\n")
    prompts = (
        "  p:\n    arguments: {file: {complete: 'file:///p/{+file}'}}\n"
        "    messages: [{resource: 'file:///p/{+file}'}]\n"
    )
    rules = "directories: {scratch: {exposed: false}, contracts: {readable: false}}"
    async with folder_server(top, prompts, rules) as server:
        wire = Wire(server, "2025-11-25")
        for name in SECRETS:
            error = await wire.error(*got(file=name))
            absent = await wire.error(*got(file="absent"))
            assert {**error, "data": 0} == {**absent, "data": 0}, name
            assert await suggested(wire, name[:3]) in ([], ["contracts/"], ["shown.txt"])
            assert await suggested(wire, name) in ([], ["contracts/"])
        assert texts(await wire.result(*got(file="shown.txt"))) == ["shown"]
        everything = texts(await wire.result(*got(file="contracts")))
        assert "secret" not in str(everything)


async def suggested(wire: Wire, typed: str) -> list[str]:
    asked = {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "file", "value": typed},
    }
    return (await wire.result("completion/complete", asked))["completion"]["values"]


async def test_a_hidden_mount_looks_missing_to_the_caller() -> None:
    mount = Mount("one", "test://one/", Tree(NODES), access=frozenset(("hr:read",)))
    catalog = Catalog([mount])
    await catalog.start()
    server = Server(catalog, prompts=reading(ANY))
    wire = Wire(server, "2025-11-25")
    with acting(Caller("guest", frozenset(("mcp:read",)))):
        refused = await wire.error(*got(file="blob"))
        absent = await wire.error(*got(file="absent"))
    with acting(Caller("clerk", frozenset(("hr:read",)))):
        assert await wire.result(*got(file="blob"))
    assert {**refused, "data": 0} == {**absent, "data": 0}


async def test_a_pending_prompt_can_be_cancelled() -> None:
    gate = Gate()
    wire = await wire_of(reading(ANY), Tree({"late": gate}))
    id = wire.start(*got(file="late"))
    await gate.started.wait()
    wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    await gate.cancelled.wait()
    await wire.finished()
    assert wire.replies == []


@given(st.binary(max_size=60).map(os.fsdecode))
def test_the_uri_of_any_value_stays_below_the_mount(value: str) -> None:
    for template in (ANY, "test://one/{file}", "test://one/x{?file}"):
        uri = filled_uri(template, {"file": value})
        assert uri is not None
        assert uri.startswith("test://one/")
        assert uri.isascii()
        assert not set(uri) & set('#{}<>\\" \n\0')
        assert uri.count("?") == template.count("?")
