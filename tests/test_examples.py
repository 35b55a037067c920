"""Each example is started as its README says and driven by the official SDK's client."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp_types import (
    BlobResourceContents,
    EmbeddedResource,
    PromptReference,
    Request,
    Result,
    TextContent,
    TextResourceContents,
)
from pydantic import ConfigDict

from resource_server.runtime.timing import Timing
from tests.commands import command
from tests.transports.program import modern, running
from tests.waiting import PATIENCE_S, PATIENT, until

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text("utf-8")

pytestmark = pytest.mark.anyio

# Of the handshake, and of the per-request envelope that an automatic client finds out about.
modes = pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")]
)


@asynccontextmanager
async def served(
    folder: Path, mode: str, revision: str, timing: Timing | None = None
) -> AsyncGenerator[Client]:
    program, *arguments = command(timing)
    server = StdioServerParameters(
        command=program,
        args=[*arguments, "serve", str(folder)],
        env={"PYTHONPATH": str(ROOT)},
    )
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
        assert client.protocol_version == revision
        yield client


async def listed(client: Client) -> dict[str, str | None]:
    """Return the media type of everything that is listed, by URI, in order."""
    found: dict[str, str | None] = {}
    cursor = None
    while True:
        page = await client.list_resources(cursor=cursor)
        found |= {resource.uri: resource.mime_type for resource in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return found


async def text(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def is_absent(client: Client, uri: str) -> bool:
    """Say whether reading this URI is answered like that of any that does not exist.

    Only what is listed, and is another resource, may be suggested in its place.
    """
    try:
        await client.read_resource(uri)
    except MCPError as error:
        expected = -32002 if client.protocol_version < "2026" else -32602
        data = dict(error.error.data)
        suggestions = set(data.pop("suggestions", ()))
        may_be_suggested = not suggestions or suggestions <= {*await listed(client)} - {uri}
        return may_be_suggested and (error.error.code, data) == (expected, {"uri": uri})
    return False


async def refusal(client: Client, uri: str) -> tuple[int, str, dict[str, Any]]:
    """Return the error of reading a URI, without the URI itself."""
    with pytest.raises(MCPError) as refused:
        await client.read_resource(uri)
    error = refused.value.error
    return error.code, error.message, {**error.data, "uri": None}


@modes
async def test_the_project_is_listed_in_order_with_its_types(mode: str, revision: str) -> None:
    async with served(EXAMPLES / "project", mode, revision) as client:
        found = await listed(client)
    # Level by level, collections first, and before all others `docs` for its priority.
    assert [(uri.removeprefix("file:///project/"), kind) for uri, kind in found.items()] == [
        ("file:///project", "inode/directory"),
        ("docs", "inode/directory"),
        ("assets", "inode/directory"),
        ("contracts", "inode/directory"),
        ("db", "inode/directory"),
        ("src", "inode/directory"),
        ("templates", "inode/directory"),
        ("web", "inode/directory"),
        ("README.md", "text/markdown"),
        ("docs/images", "inode/directory"),
        ("src/teashop", "inode/directory"),
        ("docs/getting-started.md", "text/markdown"),
        ("docs/prices.md", "text/markdown"),
        ("assets/logo.png", "image/png"),
        ("contracts/supplier.md", "text/markdown"),
        ("db/schema.sql", "application/sql"),
        ("templates/receipt.tpl", "text/html"),
        ("web/cart.js", "text/javascript"),
        ("docs/images/order.svg", "image/svg+xml"),
        ("src/teashop/__init__.py", "text/x-python"),
        ("src/teashop/orders.py", "text/x-python"),
    ]


@modes
async def test_the_project_is_read_as_text_and_bytes_even_where_unlisted(
    mode: str, revision: str
) -> None:
    project = EXAMPLES / "project"
    async with served(project, mode, revision) as client:
        readme = (project / "README.md").read_text("utf-8")
        assert await text(client, "file:///project/README.md") == readme
        assert (await text(client, "file:///project/data/prices.csv")).startswith("tea,")
        [logo] = (await client.read_resource("file:///project/assets/logo.png")).contents
        assert isinstance(logo, BlobResourceContents)
        assert base64.b64decode(logo.blob) == (project / "assets/logo.png").read_bytes()


ABSENT = (
    ".env",
    ".env.example",
    "deploy.pem",
    "%64eploy.pem",
    ".gitignore",
    "build",
    "build/cart.js",
    "web/vendor.min.js",
    "scratch",
    "scratch/ideas.md",
    "contracts/supplier.md",
    "../archive/make.py",
    "docs/%2e%2e/.env",
    "docs%2f..%2f.env",
    "no-such-file",
)


@modes
async def test_secret_ignored_and_hidden_files_cannot_be_guessed(mode: str, revision: str) -> None:
    async with served(EXAMPLES / "project", mode, revision) as client:
        found = [path for path in ABSENT if not await is_absent(client, f"file:///project/{path}")]
        assert found == []
        assert not await is_absent(client, "file:///project/web/cart.js")
        # What is suggested does not tell a hidden file from one that never was.
        for hidden, invented in (("scratch", "scratcj"), ("scratch/ideas.md", "scratcj/ideas.md")):
            assert await refusal(client, f"file:///project/{hidden}") == await refusal(
                client, f"file:///project/{invented}"
            )


@modes
async def test_the_project_has_a_prompt_that_shows_the_file_to_review(
    mode: str, revision: str
) -> None:
    async with served(EXAMPLES / "project", mode, revision) as client:
        (prompt,) = (await client.list_prompts()).prompts
        assert (prompt.name, prompt.title) == ("review", "Review a file")
        reference = PromptReference(name="review")
        found = await client.complete(reference, {"name": "file", "value": "src/teashop/o"})
        assert found.completion.values[0] == "src/teashop/orders.py"
        asked = {"file": "src/teashop/orders.py", "focus": "style"}
        shown, said = (await client.get_prompt("review", asked)).messages
        assert isinstance(shown.content, EmbeddedResource)
        assert shown.content.resource.uri == "file:///project/src/teashop/orders.py"
        assert isinstance(said.content, TextContent)
        assert said.content.text == "Review this file. Focus on style."
        for absent in (*ABSENT, "no-such-file"):
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("review", {"file": absent})
            assert "'file' names nothing that can be read" in refused.value.error.message


@modes
async def test_the_archive_is_listed_and_read(mode: str, revision: str) -> None:
    async with served(EXAMPLES / "archive", mode, revision) as client:
        found = await listed(client)
        # Level by level; an archive has its collections among the documents.
        assert list(found)[:6] == [
            "archive://release",
            "archive://release/README.md",
            "archive://release/assets",
            "archive://release/docs",
            "archive://release/src",
            "archive://release/assets/logo.png",
        ]
        assert found["archive://release/src/teashop/orders.py"] == "text/x-python"
        with zipfile.ZipFile(EXAMPLES / "archive/release.zip") as release:
            readme = release.read("README.md").decode()
        assert await text(client, "archive://release/README.md") == readme
        assert await is_absent(client, "archive://release/../project/.env")
        assert await is_absent(client, "archive://release/make.py")


@modes
async def test_this_repository_serves_itself(mode: str, revision: str) -> None:
    async with served(ROOT, mode, revision) as client:
        found = await listed(client)
        readme = next(uri for uri in found if uri.endswith("/README.md"))
        assert await text(client, readme) == (ROOT / "README.md").read_text("utf-8")
    assert not [uri for uri in found if "__pycache__" in uri or "/.git/" in uri or ".pem" in uri]


def test_the_release_contains_what_its_script_packs(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLES / "archive/make.py"))["main"](tmp_path / "release.zip")

    def members(archive: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(archive) as packed:
            return {name: packed.read(name) for name in packed.namelist()}

    assert members(tmp_path / "release.zip") == members(EXAMPLES / "archive/release.zip")


class AnyResult(Result):
    """A result of a method that the SDK does not know."""

    model_config = ConfigDict(extra="allow")


@modes
async def test_the_skills_are_listed_with_digests_of_what_is_read(mode: str, revision: str) -> None:
    async with served(EXAMPLES / "skills", mode, revision) as client:
        found = await listed(client)
        session = client.session

        async def ask(method: str, **params: str) -> dict[str, Any]:
            request = Request[dict[str, Any], str](method=method, params={**params})
            return (await session.send_request(request, AnyResult)).model_extra or {}

        skills = (await ask("skills/list"))["skills"]
        assert [skill["frontmatter"]["name"] for skill in skills] == ["refunds", "stocktaking"]
        assert skills[0]["frontmatter"]["metadata"] == {"owner": "orders", "version": "1.2"}
        for skill in skills:
            assert (await ask("skills/get", uri=skill["uri"]))["skill"] == skill
            for file in skill["resources"]:
                assert file["uri"] in found
                data = (await text(client, file["uri"])).encode()
                digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
                assert (digest, len(data)) == (file["digest"], file["size"])
        templates = await ask("resources/directory/read", uri="skill://teashop/refunds/templates")
        assert [each["name"] for each in templates["resources"]] == ["full.md", "partial.md"]


@modes
async def test_documents_that_are_no_text_are_read_searched_and_shown(
    mode: str, revision: str
) -> None:
    async with served(EXAMPLES / "documents", mode, revision) as client:
        base = "file:///documents/"
        for path, fact in (
            ("report.pdf?pages=3", "Outlook: oolong"),
            ("prices.xlsx?sheet=Suppliers", "| Kettle & Sons | GB |"),
            ("refunds.docx?format=markdown", "| 30 | half |"),
            ("plans.pptx?slides=2", "Mention the harvest in May."),
            ("complaint.eml?format=markdown", "The Earl Grey of order 5 arrived open."),
        ):
            assert fact in await text(client, base + path)
        lines: list[str] = []

        async def is_searched() -> bool:
            """Search, and say whether there was time for every document."""
            result = await client.call_tool("search_resources", {"query": "oolong"})
            found: dict[str, Any] = result.structured_content or {}
            lines[:] = [line for file in found["files"] for _, line in file["lines"]]
            return bool(found["complete"]) and "next" not in found

        await until(is_searched)
        assert lines == ["[slide 2] - Sell more oolong", "[page 3] Outlook: oolong"]


def shown_searches() -> list[tuple[dict[str, Any], str]]:
    """Return the arguments of each search of the documents that a page shows, and its result."""
    call = r"^```text\nsearch_resources (.+)\n\n((?:.+\n)+)```$"
    pages = (README, (ROOT / "docs/documents.md").read_text("utf-8"))
    found = [shown for page in pages for shown in re.findall(call, page, re.MULTILINE)]
    return [(json.loads(arguments), result) for arguments, result in found]


@pytest.mark.parametrize(("arguments", "result"), shown_searches())
async def test_one_search_right_after_the_start_finds_the_page_among_300(
    arguments: dict[str, Any], result: str
) -> None:
    assert "[page 251] Invoice INV-00250" in result
    # A quiet machine does without: the conversion takes a second of the 15 that there are.
    async with served(EXAMPLES / "documents", "auto", "2026-07-28", PATIENT) as client:
        [said] = (await client.call_tool("search_resources", arguments)).content
        assert isinstance(said, TextContent)
        assert f"{said.text}\n" == result


async def test_a_search_of_all_documents_finds_the_page_or_says_first_what_it_left() -> None:
    async with served(EXAMPLES / "documents", "auto", "2026-07-28") as client:
        [said] = (await client.call_tool("search_resources", {"query": "INV-00250"})).content
        assert isinstance(said, TextContent)
        if "[page 251]" not in said.text:
            expected = r".*; not searched: .*\binvoices\.pdf \(105KB, not converted yet\)"
            assert re.match(expected, said.text)


@pytest.mark.parametrize(
    ("tool", "more", "part"),
    [
        ("search_resources", {"query": "invoice"}, r"^\d+: \[page (\d+)\] .*nvoice"),
        ("read_resource", {}, r"^## Page (\d+)$"),
    ],
)
async def test_every_printed_call_is_one_that_is_offered_and_the_last_one_ends_all_pages(
    tool: str, more: dict[str, str], part: str
) -> None:
    async with served(EXAMPLES / "documents", "auto", "2026-07-28") as client:
        schemas = {each.name: each.input_schema for each in (await client.list_tools()).tools}
        calls = [json.dumps({**more, "uri": "file:///documents/invoices.pdf"})]
        pages: list[str] = []
        while calls:
            arguments = json.loads(calls[0])
            validate(arguments, schemas[tool])
            result = await client.call_tool(tool, arguments)
            said = "\n".join(each.text for each in result.content if isinstance(each, TextContent))
            pages += re.findall(part, said, re.MULTILINE)
            calls = re.findall(r"(?:Read on:|call again with) (\{.*\})", said)
            content: dict[str, Any] = result.structured_content or {}
            assert content.get("next") == (json.loads(calls[0]).get("cursor") if calls else None)
    assert pages == [str(number) for number in range(1, 301)]


def test_the_invoices_are_those_that_their_script_makes(tmp_path: Path) -> None:
    kept, made = EXAMPLES / "documents/documents/invoices.pdf", tmp_path / "invoices.pdf"
    runpy.run_path(str(EXAMPLES / "documents/make.py"))["make"](made)
    # Compressed otherwise by some libraries.
    stream = re.compile(rb"stream\n(.+?)\nendstream", re.DOTALL)
    drawn = [[zlib.decompress(s) for s in stream.findall(f.read_bytes())] for f in (kept, made)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 300
    assert kept.stat().st_size < 150_000


def transcripts() -> list[tuple[str, str]]:
    """Return each command that the README shows after a `$`, with the output below it."""
    blocks = "".join(re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL))
    parts = re.split(r"^\$ ", blocks, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@pytest.mark.parametrize(("command", "output"), transcripts())
def test_a_command_of_the_readme_prints_the_documented_output(command: str, output: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "resource-server"
    done = subprocess.run(
        [sys.executable, "-m", "resource_server", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout.rstrip() == output.rstrip()


def test_every_example_is_in_the_readme() -> None:
    for manifest in EXAMPLES.glob("*/mcp-resources.yaml"):
        assert f"]({manifest.parent.name}/" in README


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The shop with its database, made as its README says."""
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLES / "shop", folder, ignore=shutil.ignore_patterns("*.db*"))
    subprocess.run([sys.executable, str(folder / "make.py")], check=True, timeout=60)
    return folder


HELD_BACK = ("audit_log", "audit_log/1", "orders/4", "order_lines/4/1", "orders/4/~cell/status")


@modes
async def test_the_shop_is_read_and_its_hidden_parts_are_not_found(
    shop: Path, mode: str, revision: str
) -> None:
    async with served(shop, mode, revision) as client:
        assert {f"sqlite://shop/{name}" for name in ("orders", "sales", "~query")} <= set(
            await listed(client)
        )
        assert [
            path for path in HELD_BACK if not await is_absent(client, f"sqlite://shop/{path}")
        ] == []
        order = json.loads(await text(client, "sqlite://shop/orders/5"))
        assert (order["status"], order["card_number"]) == ("sent", "…0009")
        assert json.loads(await text(client, "sqlite://shop/order_lines/5/2"))["grams"] == 50
        tea = json.loads(await text(client, "sqlite://shop/products/~tearl~2Fgrey"))
        assert tea["name"] == "Earl Grey"
        customers = await text(client, "sqlite://shop/customers/~rows?format=csv")
        assert "Ada Winter" in customers
        assert "@" not in customers
        best = json.loads(await text(client, "sqlite://shop/~query/top_customers?country=FR"))
        assert [row["name"] for row in best["rows"]] == ["Chloé Martin", "Bo Chen"]
        [picture] = (
            await client.read_resource("sqlite://shop/products/assam-2/~cell/picture")
        ).contents
        assert isinstance(picture, BlobResourceContents)
        assert base64.b64decode(picture.blob).startswith(b"\x89PNG")


@modes
async def test_queries_of_the_shop_are_tools_and_its_rows_are_searchable(
    shop: Path, mode: str, revision: str
) -> None:
    async with served(shop, mode, revision) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert {"top_customers", "waiting"} <= set(names)
        best = await client.call_tool("top_customers", {"country": "FR", "count": 1})
        assert best.structured_content == {
            "columns": ["name", "total_cents"],
            "rows": [["Chloé Martin", 1800]],
        }
        [table] = best.content
        assert isinstance(table, TextContent)
        assert "| Chloé Martin | 1800 |" in table.text
        for query, uris in FOUND_IN_THE_SHOP.items():
            found = await client.call_tool("search_resources", {"query": query})
            assert found.structured_content is not None
            content = found.structured_content
            hits = [content["base"] + file["path"] for file in content["files"]]
            assert hits == [f"sqlite://shop/{uri}" for uri in uris]


FOUND_IN_THE_SHOP: dict[str, list[str]] = {
    "chlo": ["customers/3"],
    "CHLOÉ": ["customers/3"],
    "bergamot": ["products/~tearl~2Fgrey"],
    "/^(Assam|Mint)/": ["products/assam-2", "products/mint"],
    "customers": ["customers", "~query/top_customers"],
    "total_cents": ["sales/~schema"],
    "example.org": [],
    "340000000000009": [],
    "audit": [],
    "draft": [],
}


def table_of_callers() -> dict[tuple[str, str], str]:
    """Return what the README of the teams says that each caller is shown, by caller and URI."""
    lines = (EXAMPLES / "teams/README.md").read_text("utf-8").splitlines()
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]
    (_, *uris), _, *callers = rows
    return {
        (cells[0].split()[0], uri): shown
        for cells in callers
        for uri, shown in zip(uris, cells[1:], strict=True)
    }


def test_each_caller_of_the_teams_is_shown_what_the_readme_says_and_recorded(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "teams"
    shutil.copytree(EXAMPLES / "teams", folder, ignore=shutil.ignore_patterns("*.db*", "audit*"))
    subprocess.run([sys.executable, str(folder / "make.py")], check=True, timeout=60)
    with running(folder / "mcp-resources.yaml") as program:

        def asked(caller: str, method: str, **params: Any) -> dict[str, Any]:
            token = f"Bearer change-this-token-of-{caller}"
            named = {"mcp_name": params["name"]} if "name" in params else {}
            sent = modern(method, params, authorization=token, **named)
            result: dict[str, Any] = program.ask(sent).json.get("result", {})
            return result

        def shown(caller: str, uri: str) -> str:
            result = asked(caller, "resources/read", uri=uri)
            if not result:
                return "not found"
            rows = json.loads(result["contents"][0]["text"])["rows"]
            if uri.startswith("activity:"):
                assert {row["subject"] for row in rows} == {"ada", "ben", "eve"}
                return "the last requests"
            return ", ".join(str(row.get("id", row.get("minutes"))) for row in rows) or "none"

        table = table_of_callers()
        assert len(table) == 12
        assert {(caller, uri): shown(caller, uri) for caller, uri in table} == table
        assert shown("ada", "sqlite://desk/tickets/2") == "not found"
        counted = {"name": "query_database", "arguments": {"sql": "select count(*) from tickets"}}
        assert "3" in asked("ada", "tools/call", **counted)["content"][0]["text"]
        assert program.end(signal.SIGTERM) == 0
    record = folder / "audit.jsonl"
    verified = subprocess.run(
        [sys.executable, "-m", "resource_server", "audit", "verify", str(record)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    # Of 14 requests, the start and the end.
    assert "whole: 16 lines follow each other" in verified.stdout
    assert "Parcel came back" not in record.read_text("utf-8")
