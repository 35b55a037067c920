from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.errors import InvalidParameter
from resource_server.manifest.prompts import Prompt, PromptArgument, PromptMessage
from resource_server.protocol.prompts.argument_completion import complete, variable_position
from resource_server.provider import Provider, Template
from tests.cases import for_each
from tests.protocol.prompts.serving import got, reading, server_of
from tests.protocol.wire import EVERY, Wire
from tests.providers_for_tests import SlowTree, Tree

pytestmark = pytest.mark.anyio

NODES: dict[str, Any] = {
    "docs": {"a b.md": "", "guide.md": "", "deep": {"note.md": ""}},
    "100%.txt": "percent",
    "half \udcff": "",
}


class Tables(Tree):
    """Has templates like those of a database, and says what it is asked to complete."""

    templates: Sequence[Template] = (
        Template("{schema}/{table}/~rows{?after,format}", name="rows"),
        Template("{schema}/{table}/{+key}", name="row"),
        Template("~query/top%20ten{?country}", name="query"),
        Template("~query/best?country={country}", name="best", optional=("format",)),
        Template("{schema}/{table}/~count", name="count", optional=("format",)),
    )

    def complete(self, variable: str, value: str, *, given: Mapping[str, str]) -> Sequence[str]:
        return [f"{value}{variable} of {' '.join(given.values())}".strip()]


def completing(template: str, *others: str, **options: Any) -> Prompt:
    """Return a prompt whose argument `file` completes a template."""
    arguments = {name: PromptArgument() for name in others}
    arguments["file"] = PromptArgument(complete=template, **options)
    return Prompt(arguments=arguments, messages=(PromptMessage(text="x"),))


async def test_a_value_too_long_for_a_uri_has_no_suggestions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompt = completing("test://one/{+folder}/{file}", "folder")
    assert await suggested(prompt, "n", Tree(NODES), folder="docs/deep") == ["note.md"]
    # Nothing of it is even encoded.
    monkeypatch.setattr(uris, "quote_segment", None)
    assert await suggested(completing("test://one/{file}"), "x" * 20_000, Tree(NODES)) == []
    monkeypatch.setattr(uris, "expand", None)
    assert await suggested(prompt, "n", Tree(NODES), folder="x/" * 10_000) == []


async def suggested(
    prompt: Prompt, typed: str, *providers: Provider, argument: str = "file", **given: str
) -> list[str]:
    server = await server_of({}, *providers)
    return list((await complete(server.catalog, prompt, argument, typed, given)).values)


@for_each("tree", [Tree, SlowTree])
async def test_paths_are_suggested_in_the_form_an_argument_accepts(tree: type[Tree]) -> None:
    prompt = completing("test://one/{+file}")
    assert (await suggested(prompt, "docs/", tree(NODES)))[0] == "docs/deep/"
    assert "docs/a b.md" in await suggested(prompt, "docs/a b", tree(NODES))
    assert "docs/a b.md" in await suggested(prompt, "docs/a%20", tree(NODES))
    assert "100%25.txt" in await suggested(prompt, "100%", tree(NODES))


async def test_paths_are_suggested_relative_to_the_folder_of_the_template() -> None:
    for template in ("test://one/docs/{+file}", "TEST://one/%64ocs/{+path}"):
        found = await suggested(completing(template), "", Tree(NODES))
        assert sorted(found) == ["a b.md", "deep/", "guide.md"]
    found = await suggested(completing("test://one/docs/{+file}"), "deep/n", Tree(NODES))
    assert found == ["deep/note.md"]


async def test_names_of_a_single_segment_are_suggested_unencoded() -> None:
    found = await suggested(completing("test://one/docs/{file}"), "", Tree(NODES))
    assert sorted(found) == ["a b.md", "deep", "guide.md"]
    found = await suggested(completing("test://one/{file}"), "100%", Tree(NODES))
    assert sorted(found) == ["100%.txt", "docs"]


@for_each("template", ["test://one/{+file}", "test://one/docs/{file}", "test://one/{file}"])
async def test_every_suggested_value_can_be_read(template: str) -> None:
    wire = Wire(await server_of(reading(template), Tree(NODES)), "2025-11-25")
    for value in await suggested(completing(template), "", Tree(NODES)):
        assert "result" in await wire.call(*got(file=value)), value


async def test_other_arguments_are_substituted_if_given_or_defaulted() -> None:
    prompt = completing("test://one/{table}/{+file}", "table")
    assert await suggested(prompt, "g", Tree(NODES)) == []
    assert "guide.md" in await suggested(prompt, "g", Tree(NODES), table="docs")
    assert await suggested(prompt, "g", Tree(NODES), table="absent") == []
    assert await suggested(prompt, "g", Tree(NODES), table="..") == []
    assert await suggested(prompt, "g", Tree(NODES), other="docs") == []
    default = Prompt(
        arguments={**prompt.arguments, "table": PromptArgument(default="docs")},
        messages=prompt.messages,
    )
    assert "guide.md" in await suggested(default, "g", Tree(NODES))
    assert "guide.md" in await suggested(default, "g", Tree(NODES), table="")


ORDERS = {"schema": "public", "table": "orders"}
PLACES: dict[str, tuple[str, dict[str, str], tuple[str, ...]] | None] = {
    "{+file}": ("schema", {}, ()),
    "public/{file}": ("table", {"schema": "public"}, ()),
    "public/orders/{+file}": ("key", ORDERS, ()),
    "public/orders/{file}": ("key", ORDERS, ()),
    "public/orders/1/{file}": ("key", ORDERS, ("1",)),
    "public/orders/~rows{?after}": ("after", ORDERS, ()),
    "~query/top%20ten{?country}": ("country", {}, ()),
    "~query/top%20ten{&country}": ("country", {}, ()),
    "~query/best{?country}": ("country", {}, ()),
    "~query/best{?format}": ("format", {}, ()),
    "~query/best{?other}": None,
    "public/orders/~count{?format}": ("format", ORDERS, ()),
    "~query/other{?country}": None,
    "~query/top%20ten{?other}": None,
    "public/orders/1{?after}": None,
    "public/orders{?after}": None,
}


@for_each("template", PLACES)
async def test_the_variable_position_a_variable_is_found_in_the_templates_of_its_mount(
    template: str,
) -> None:
    server = await server_of({}, Tables({}), Tree({}))
    found = await variable_position(server.catalog, f"test://one/{template}")
    expected = PLACES[template]
    assert (None if found is None else found[1:]) == expected


async def test_a_query_variable_is_suggested_unencoded() -> None:
    prompt = completing("test://one/public/orders/~rows{?after}")
    assert await suggested(prompt, "a%", Tables({})) == ["a%after of public orders"]
    prompt = completing("test://one/public/{+file}")
    assert await suggested(prompt, "a", Tables({})) == ["atable of public"]


async def test_typed_text_of_a_segment_is_taken_literally() -> None:
    prompt = completing("test://one/public/orders/{file}")
    assert await suggested(prompt, "%41", Tables({})) == ["%41key of public orders"]
    prompt = completing("test://one/public/orders/{+file}")
    # A path may be encoded or not.
    expected = ["Akey of public orders", "%2541key of public orders"]
    assert await suggested(prompt, "%41", Tables({})) == expected


async def test_mounts_with_equal_templates_are_distinguished() -> None:
    server = await server_of({}, Tree({}), Tree({}))
    found = await variable_position(server.catalog, "test://two/{+file}")
    assert found is not None
    assert found.uri_template == "test://two/{+path}"


async def test_examples_are_suggested_if_no_template_fits() -> None:
    prompt = completing("test://one/~query/other{?file}", examples=("DE", "FR"))
    assert await suggested(prompt, "d", Tables({})) == ["DE"]
    assert await suggested(completing("test://none/{+file}"), "d", Tables({})) == []


async def test_listed_values_that_contain_the_typed_text_are_suggested() -> None:
    known = ("Security", "correctness")
    for argument in (PromptArgument(enum=known), PromptArgument(examples=known)):
        prompt = Prompt(arguments={"focus": argument}, messages=(PromptMessage(text="x"),))
        assert await suggested(prompt, "secu", argument="focus") == ["Security"]
        assert await suggested(prompt, "", argument="focus") == ["Security", "correctness"]
        assert await suggested(prompt, "zzz", argument="focus") == []
        assert await suggested(prompt, "x" * 1_000_000, argument="focus") == []


async def test_an_argument_without_known_values_has_no_suggestions() -> None:
    prompt = Prompt(arguments={"a": PromptArgument()}, messages=(PromptMessage(text="x"),))
    assert await suggested(prompt, "x", argument="a") == []
    with pytest.raises(InvalidParameter):
        await suggested(prompt, "x", argument="b")


@for_each(
    "typed", ["..", "../", "%2e%2e/", "/", "//", "%", "%zz", "\0", "x" * 100_000, "{+file}", "a?b"]
)
@for_each("template", ["test://one/{+file}", "test://one/docs/{file}"])
async def test_no_dot_segments_or_empty_segments_are_suggested(typed: str, template: str) -> None:
    for value in await suggested(completing(template), typed, Tree(NODES)):
        assert value.removesuffix("/").split("/")[-1] not in ("", ".", "..")


@for_each("revision", EVERY)
async def test_at_most_a_hundred_values_are_sent_with_the_total(revision: str) -> None:
    names = {f"{number:03}.txt": "" for number in range(250)}
    prompt = completing("test://one/{+path}", "focus")
    wire = Wire(await server_of({"p": prompt}, Tree({"docs": names})), revision)
    asked = {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "file", "value": "docs/"},
        "context": {"arguments": {"focus": "x", "none": "y"}},
    }
    result = await wire.result("completion/complete", asked)
    validate_server_result("completion/complete", revision, result)
    found = result["completion"]
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 250, True)
    for wrong in (
        {**asked, "ref": {"type": "ref/prompt", "name": "none"}},
        {**asked, "argument": {"name": "none", "value": ""}},
        {**asked, "argument": {"name": "file", "value": 5}},
        {**asked, "context": {"arguments": {"focus": 5}}},
    ):
        assert (await wire.error("completion/complete", wrong))["code"] == -32602


async def test_completion_from_an_unavailable_mount_is_a_busy_error() -> None:
    class Closed(Tree):
        async def __aenter__(self) -> None:
            raise RuntimeError

        async def __aexit__(self, *_: object) -> None: ...

    catalog = Catalog([Mount("one", "test://one/", Closed({}))])
    wire = Wire((await server_of({"p": completing("test://one/{+file}")})), "2025-11-25")
    wire.connection.server.catalog = catalog
    asked = {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "file", "value": ""},
    }
    assert (await wire.error("completion/complete", asked))["code"] == -32012
