"""Nothing that is hidden gets out by a tool: every spelling, every secret, every place to ask."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.serving import server_builder
from tests.protocol.tools.tooled import refusal, words
from tests.protocol.wire import HANDSHAKE
from tests.spellings import host_spellings, wrong_spellings
from tests.test_bad_input import TRAVERSALS

pytestmark = pytest.mark.anyio

CANARY = "canary-5f2b"
SECRETS = (
    ".env",
    ".env.local",
    "docs/key.pem",
    "docs/id_rsa",
    ".git/config",
    ".npmrc",
    "secrets.yaml",
    ".hidden/note.txt",
    "build/out.txt",
    "scratch/note.txt",
    "link.txt",
    "out/secret.txt",
)
MANIFEST = """
roots:
  p:
    path: p
    directories:
      scratch: {exposed: false}
      sealed: {readable: false}
databases:
  shop:
    url: sqlite:///shop.db
    tables:
      people:
        columns: {hide: [pin], mask: {card: last4}}
        where: "status <> 'draft'"
      "audit_*": false
    queries:
      everybody: {sql: "select name from people"}
"""
DATABASE = (
    "people/1/~cell/pin",
    "people/2",
    "people/~rows?columns=pin",
    "people/~rows?columns=card,pin",
    "audit_log",
    "audit_log/~rows",
    "audit_log/~schema",
    "sqlite_master",
    "sqlite_master/~rows",
    "people/1'%20or%201=1--",
    "~query/everybody?sql=select%20pin%20from%20people",
    "~query/nobody",
)


def make(top: Path) -> None:
    project = top / "p"
    for name in SECRETS[:-2]:
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{CANARY} {name}\n")
    (top / "secret.txt").write_text(f"{CANARY} outside\n")
    (project / "link.txt").symlink_to(top / "secret.txt")
    (project / "out").symlink_to(top)
    (project / ".gitignore").write_text("build/\n")
    (project / "a.txt").write_text("inside\n")
    (project / "docs" / "b.txt").write_text("deeper\n")
    (project / "sealed").mkdir()
    (project / "sealed" / "contract.txt").write_text(f"{CANARY} sealed\n")
    (top / "mcp-resources.yaml").write_text(MANIFEST)
    with sqlite3.connect(top / "shop.db") as shop:
        shop.execute("create table people (id integer primary key, name, pin, card, status)")
        shop.execute("create table audit_log (id integer primary key, what)")
        ada, draft = (1, "ada", CANARY, f"{CANARY}-1234", "open"), (2, CANARY, "x", "y", "draft")
        shop.executemany("insert into people values (?, ?, ?, ?, ?)", (ada, draft))
        shop.execute("insert into audit_log values (1, ?)", (CANARY,))
    shop.close()


@pytest.fixture(params=["2024-11-05", "2025-11-25"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[LocalClient]:
    assert request.param in HANDSHAKE
    make(tmp_path)
    server = server_builder.build_server(
        server_builder.load_manifest(str(tmp_path), allow_plugins=False), allow_plugins=False
    )
    async with server, LocalClient(server, request.param) as client:
        yield client


async def result(client: LocalClient, name: str, **arguments: object) -> dict[str, Any]:
    """Return the result of a tool, in which no secret may be."""
    found = await client.request("tools/call", {"name": name, "arguments": arguments})
    assert CANARY not in msgspec.json.encode(found).decode()
    return found


METHODS = (
    "resources/read",
    "resources/metadata",
    "resources/list",
    "resources/directory/read",
    "resources/subscribe",
)


async def refused(client: LocalClient, method: str, uri: str) -> ErrorReply:
    """Return the error of a method that finds nothing."""
    with pytest.raises(ErrorReply) as raised:
        await client.request(method, {"uri": uri})
    assert raised.value.code in (-32002, -32602), uri
    return raised.value


def remove_secrets(project: Path) -> None:
    for secret in SECRETS[:-1]:
        (project / secret).unlink()
    (project / "out").unlink()


def twice_quoted(text: str) -> str:
    return quote(quote(text, safe=""), safe="")


async def read(client: LocalClient, uri: str) -> str:
    found = await result(client, "read_resource", uri=uri)
    assert "isError" not in found, found
    return found["content"][0]["text"]


async def test_no_spelling_of_a_uri_escapes_the_root_through_any_tool(client: LocalClient) -> None:
    for spelling in TRAVERSALS:
        uri = f"file:///p/{spelling}"
        for name in ("read_resource", "resource_metadata", "list_resources"):
            told = refusal(await result(client, name, uri=uri))
            assert told.startswith("Resource not found: "), spelling
        told = refusal(await result(client, "search_resources", query="a", uri=uri))
        assert told.startswith("Resource not found: "), spelling
    assert await read(client, "file:///p/a.txt") == "inside\n"
    assert await read(client, "FILE:///p/docs/%62.txt") == "deeper\n"


async def test_a_secret_looks_like_a_missing_resource(client: LocalClient, tmp_path: Path) -> None:
    async def told() -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for name in ("read_resource", "resource_metadata", "list_resources"):
            for secret in SECRETS:
                for query in ("", "?lines=1-1", "?bytes=0-9", "?tail=1"):
                    uri = f"file:///p/{secret}{query if name == 'read_resource' else ''}"
                    found[name, uri] = refusal(await result(client, name, uri=uri))
                    assert found[name, uri].startswith(f"Resource not found: {uri}. ")
        return found

    hidden = await told()
    remove_secrets(tmp_path / "p")
    # Suggestions depend on the name, so the same names are asked for when nothing has them.
    assert await told() == hidden


@pytest.mark.deep
async def test_what_a_host_makes_of_a_uri_reaches_no_secret(
    client: LocalClient, tmp_path: Path
) -> None:
    uris = [f"file:///p/{path}" for path in (*SECRETS, *TRAVERSALS) if len(path) < 200]
    spellings = [
        spelling for uri in uris for spelling in (*host_spellings(uri), *wrong_spellings(uri))
    ]

    async def told() -> dict[tuple[str, str], tuple[object, ...] | str]:
        found: dict[tuple[str, str], tuple[object, ...] | str] = {}
        for spelling in spellings:
            for name in ("read_resource", "resource_metadata", "list_resources"):
                found[name, spelling] = refusal(await result(client, name, uri=spelling))
                assert str(found[name, spelling]).startswith("Resource not found: "), spelling
            for method in METHODS:
                error = await refused(client, method, spelling)
                found[method, spelling] = (error.code, error.message, error.data)
        return found

    hidden = await told()
    # The nearest requests that must work.
    for spelling in host_spellings("file:///p/docs/b.txt"):
        assert await read(client, spelling) == "deeper\n"
    for spelling in wrong_spellings("file:///p/docs/b.txt"):
        refusal(await result(client, "read_resource", uri=spelling))
    remove_secrets(tmp_path / "p")
    assert await told() == hidden


async def test_what_a_host_makes_of_a_uri_reaches_no_hidden_database_content(
    client: LocalClient,
) -> None:
    for path in DATABASE:
        uri = f"sqlite://shop/{path}"
        for spelling in (*host_spellings(uri), *wrong_spellings(uri)):
            for name in ("read_resource", "resource_metadata", "list_resources"):
                found = await result(client, name, uri=spelling)
                assert found.get("isError") or ("?" in spelling and name == "resource_metadata")
    assert '"name":"ada"' in await read(client, host_spellings("sqlite://shop/people/~rows")[1])


async def test_no_spelling_of_what_is_typed_completes_what_is_hidden(client: LocalClient) -> None:
    typed = [secret[: len(secret) - 1] for secret in SECRETS]
    for value in ["", ".", "%2e", "%252e", *typed, *map(quote, typed), *map(twice_quoted, typed)]:
        for given in ({}, {"lines": "1-2"}):
            found = await client.request(
                "completion/complete",
                {
                    "ref": {"type": "ref/resource", "uri": "file:///p/{+path}"},
                    "argument": {"name": "path", "value": value},
                    "context": {"arguments": given},
                },
            )
            values = set(found["completion"]["values"])
            assert values <= {"a.txt", "docs/", "docs/b.txt", "sealed/"}, value
            assert found["completion"]["total"] == len(values)


async def test_a_listed_unreadable_document_is_not_read(client: LocalClient) -> None:
    uri = "file:///p/sealed/contract.txt"
    assert "isError" not in await result(client, "resource_metadata", uri=uri)
    for spelling in (uri, "sealed/contract.txt"):
        told = refusal(await result(client, "read_resource", uri=spelling))
        assert told == (
            f"Resource not found: {uri}. It may be gone, misspelled, or listed but not readable."
        )
    await result(client, "read_resource", uri="file:///p/sealed")


async def test_no_tool_exposes_hidden_database_content(client: LocalClient) -> None:
    for spelling in DATABASE:
        uri = f"sqlite://shop/{spelling}"
        for name in ("read_resource", "resource_metadata", "list_resources"):
            found = await result(client, name, uri=uri)
            # What is described is the document, whatever its query.
            assert found.get("isError") or ("?" in uri and name == "resource_metadata"), uri
    rows = await read(client, "sqlite://shop/people/~rows")
    assert '"name":"ada"' in rows
    assert "1234" in rows


async def test_no_listing_names_hidden_resources(client: LocalClient) -> None:
    told: set[str] = set()
    for uri in ("", "file:///p", "file:///p/docs", "sqlite://shop", "sqlite://shop/people"):
        for more in ({}, {"depth": 5}, {"pattern": "*"}, {"pattern": "**/*"}):
            found = await result(client, "list_resources", uri=uri, **more)
            head, *rows = words(found).partition("\n\n")[0].splitlines()
            base = head.removeprefix("Below").removeprefix("URI, bytes:").partition(" (")[0].strip()
            told |= {base + row.split()[0].rstrip("/") for row in rows}
    assert {"file:///p/a.txt", "file:///p/docs/b.txt", "sqlite://shop/people/~rows"} <= told
    for secret in SECRETS:
        assert f"file:///p/{secret}" not in told
    assert not any("audit" in uri for uri in told)


@pytest.mark.parametrize("where", [{}, {"in": "names"}, {"in": "text"}])
async def test_a_search_never_finds_hidden_resources(
    client: LocalClient, where: dict[str, str]
) -> None:
    names = [secret.rpartition("/")[2] for secret in SECRETS]
    half = CANARY[: len(CANARY) // 2]
    for query in (
        *names,
        "*",
        "**/*",
        half,
        f"/{half}.*/",
        "/[a-z]+-5f/",
        "audit",
        "pin",
        "%",
        "_",
    ):
        found = await result(client, "search_resources", query=query, **where)
        told = str(found)
        for secret in SECRETS:
            assert f"file:///p/{secret}'" not in told, (query, secret)
        assert "audit_log" not in told
    found = await result(client, "search_resources", query="deeper")
    assert "file:///p/docs/b.txt" in str(found)


async def test_a_query_tool_returns_only_what_its_query_may_read(client: LocalClient) -> None:
    tools = (await client.request("tools/list"))["tools"]
    for tool in tools[5:]:
        found = await result(client, tool["name"])
        assert "ada" in str(found)
        refusal(await result(client, tool["name"], sql="select pin from people"))
