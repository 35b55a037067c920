"""Names as people type them: composed accents and plain spaces find decomposed and narrow ones."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.serving import server_builder

pytestmark = pytest.mark.anyio

FOLDER = unicodedata.normalize("NFD", "Übersicht")
FILE = unicodedata.normalize("NFD", "Café") + " 9.41\u202fAM.md"
BREAD = unicodedata.normalize("NFD", "crème brûlée")
TYPED = "Übersicht/Café 9.41 AM.md"
CANARY = "canary-5f2b"
MANIFEST = """
roots:
  p:
    path: p
    include: ["/Übersicht/*.md", "/privé/", "/straße/"]
    exclude: ["*.très.md"]
    directories:
      privé: {exposed: false}
      straße: {title: The street}
"""


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[LocalClient]:
    for name, text in {
        f"{FOLDER}/{FILE}": f"{BREAD}\n",
        f"{FOLDER}/plain.md": "plain\n",
        decomposed("Übersicht/geheim.très.md"): f"{CANARY}\n",
        decomposed("privé/café.md"): f"{CANARY}\n",
        decomposed("straße/ä.md"): "street\n",
        "other/ä.md": f"{CANARY}\n",
    }.items():
        file = tmp_path / "p" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    if not (tmp_path / "p" / decomposed("straße/ä.md")).exists():
        pytest.skip("a file system that changes names")
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST, encoding="utf-8")
    server = server_builder.build_server(
        server_builder.load_manifest(str(tmp_path), allow_plugins=False), allow_plugins=False
    )
    async with server, LocalClient(server, "2025-11-25") as client:
        yield client


async def called(client: LocalClient, name: str, **arguments: object) -> str:
    params = {"name": name, "arguments": arguments}
    return str(await client.request("tools/call", params))


@pytest.mark.parametrize(
    "typed", [TYPED, decomposed(TYPED), TYPED.replace(" A", "\u202fA"), "Übersicht/" + FILE]
)
async def test_a_name_is_read_as_it_is_typed(client: LocalClient, typed: str) -> None:
    uri = "file:///p/" + typed
    (content,) = (await client.request("resources/read", {"uri": uri}))["contents"]
    assert content["text"] == f"{BREAD}\n"
    found = await client.request("resources/metadata", {"uri": uri})
    assert found["resource"]["name"] == FILE
    assert await client.request("resources/subscribe", {"uri": uri}) == {}
    for name in ("read_resource", "resource_metadata"):
        assert "'isError': True" not in await called(client, name, uri=uri)


async def test_names_are_found_as_they_are_typed(client: LocalClient) -> None:
    name = "Caf"
    assert name in await called(client, "search_resources", query="café 9.41 am")
    assert name in await called(client, "search_resources", query="Crème Brûlée")
    assert name in await called(client, "search_resources", query="brûlée", files="Übersicht/*.md")
    assert name in await called(client, "list_resources", pattern="café*am.md")
    assert name in await called(client, "list_resources", uri="file:///p/Übersicht")


@pytest.mark.parametrize("typed", ["übersicht", "Übersicht/Café 9.41 A", "Übersicht/caf"])
async def test_names_are_completed_as_they_are_typed(client: LocalClient, typed: str) -> None:
    asked: dict[str, Any] = {
        "ref": {"type": "ref/resource", "uri": "file:///p/{+path}"},
        "argument": {"name": "path", "value": typed},
    }
    values = (await client.request("completion/complete", asked))["completion"]["values"]
    assert values
    assert all(decomposed("Übersicht").split("U")[-1] in each for each in values)


async def test_rules_of_the_manifest_mean_names_as_they_are_typed(client: LocalClient) -> None:
    listed = (await client.request("resources/list"))["resources"]
    names = {each["name"] for each in listed}
    assert {FOLDER, FILE, "plain.md", decomposed("straße"), decomposed("ä.md")} <= names
    assert not any("tre" in name or "prive" in name or name == "other" for name in names)
    (street,) = [each for each in listed if each["name"].startswith("stra")]
    assert street["title"] == "The street"


async def test_nothing_hidden_is_reached_by_another_spelling(client: LocalClient) -> None:
    for path in ("privé/café.md", "privé", "Übersicht/geheim.très.md", "other/ä.md"):
        for written in (path, decomposed(path), path.replace("é", "é ")):
            for method in ("resources/read", "resources/metadata", "resources/subscribe"):
                with pytest.raises(ErrorReply) as refused:
                    await client.request(method, {"uri": f"file:///p/{written}"})
                assert CANARY not in str(refused.value)
                assert "geheim" not in str(refused.value.data.get("suggestions", ""))
