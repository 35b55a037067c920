"""Every file and row is reached by what hosts make of its URI, and of a completed template.

The codecs are the hosts' own: `vscode-uri` and the `UriTemplate` of both TypeScript SDKs, from npm.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from resource_server.protocol.in_process_client import LocalClient
from resource_server.serving import server_builder
from tests.clients import typescript

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.deep,
    typescript.NEEDS,
    pytest.mark.skipif(
        not (typescript.HERE / "node_modules/vscode-uri").is_dir(),
        reason="not installed: npm install --no-package-lock --prefix tests/clients",
    ),
]

NAMES = (
    "plain.md",
    "my file (1).md",
    "100%.md",
    "100%ab.md",
    "50% off.md",
    "a%20b.md",
    "only/a%2520b.md",
    "été%20b.md",
    "q?x.md",
    "h#x.md",
    "[id].tsx",
    "{id}.tsx",
    "été.md",
    "中文/説明.md",
    "中文/a%20b.md",
    "my docs/a%20b.md",
    "my docs/per%cent/a b.md",
    "per%cent/x.md",
    "a%20b/my file.md",
    "a%20b/a%20b.md",
    "😀 \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}.md",
    "e\u0301.md",
    "+&=@,;:!'$*~.md",
    '"<>`^|.md',
    "new\nline\ttab.md",
    "%2e%2e",
    "a%2Fb.md",
    "%E4%B8%AD.md",
    "-%.md",
    "back\\slash.md",
)
_URL_LOSES = ("%252e%252e", "%0A", "%5C")
"""`URL` resolves dots, drops line ends, and makes slashes of backslashes: no server can tell."""
LOST: Mapping[str, Sequence[str]] = {
    "VS Code: listed": _URL_LOSES,
    "VS Code: restored": _URL_LOSES,
    "VS Code: attached, not encoded": ("%0A",),
}
"""What a host loses of the names in URIs of a listing, by codec; by templates all are reached."""
KEYS = ("my key", "100%", "a%20b", "q?x", "h#x", "a/b", "é", "~", "a\\b")
BASE = "file:///the-project/"
TEMPLATE = BASE + "{+path}"
ROWS = "sqlite://shop/{table}/{+key}"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[LocalClient]:
    top = tmp_path / "the-project"
    for name in NAMES:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"first\n{name!r}\n")
    (top / "empty").mkdir()
    (top / "empty.md").touch()
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("create table things (name text primary key, said text)")
        shop.executemany("insert into things values (?, ?)", [(key, f"<{key}>") for key in KEYS])
    shop.close()
    (tmp_path / "mcp-resources.yaml").write_text(
        "roots: {the-project: {path: the-project}}\ndatabases: {shop: {url: 'sqlite:///shop.db'}}\n"
    )
    server = server_builder.build_server(
        server_builder.load_manifest(str(tmp_path), allow_plugins=False), allow_plugins=False
    )
    async with server, LocalClient(server) as client:
        yield client


async def text_of(client: LocalClient, uri: str) -> str:
    (content,) = (await client.request("resources/read", {"uri": uri}))["contents"]
    assert content["uri"] == uri
    return content["text"]


async def completed(client: LocalClient, template: str, name: str, value: str, **given: str) -> str:
    """Return the first suggestion for what a person types: a name, or the beginning of one."""
    found = await client.request(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": template},
            "argument": {"name": name, "value": value},
            "context": {"arguments": given},
        },
    )
    return found["completion"]["values"][0]


def codecs(uris: list[str], expansions: list[dict[str, Any]]) -> Mapping[str, list[str]]:
    """Return what each codec of a host makes of URIs, and of templates with their variables."""
    made = typescript.run("codecs.mjs", {"uris": uris, "expansions": expansions})
    made["RFC 6570"] = [_expanded(**each) for each in expansions]
    return {codec: spellings for codec, spellings in made.items() if spellings}


def _expanded(template: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        # The reserved characters of {+x}; it keeps what is encoded.
        template = template.replace(f"{{+{name}}}", quote(value, safe=":/?#[]@!$&'()*+,;=%"))
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return template


async def test_every_file_is_read_by_what_hosts_make_of_its_uri(client: LocalClient) -> None:
    page = await client.request("resources/list")
    listed = {
        entry["uri"]: await text_of(client, entry["uri"])
        for entry in page["resources"]
        if entry["uri"].startswith(BASE) and entry["resourceType"] == "document"
    }
    assert len(listed) == len(NAMES) + 1
    for codec, spellings in codecs(list(listed), []).items():
        for (uri, text), spelling in zip(listed.items(), spellings, strict=True):
            if not any(lost in uri for lost in LOST.get(codec, ())):
                assert await text_of(client, spelling) == text, (codec, spelling)


async def test_every_file_is_completed_and_read_by_each_client_that_expands_templates(
    client: LocalClient,
) -> None:
    values = [await completed(client, TEMPLATE, "path", name) for name in NAMES]
    assert values[1] == "my file (1).md"
    assert "中文/説明.md" in values
    for template, variables, line in (
        (TEMPLATE, {}, "first\n{!r}\n"),
        (TEMPLATE + "?lines={lines}", {"lines": "2-2"}, "{!r}\n"),
        (TEMPLATE + "?tail={tail}", {"tail": "1"}, "{!r}\n"),
    ):
        given = [{"template": template, "variables": {"path": v, **variables}} for v in values]
        for codec, spellings in codecs([], given).items():
            for name, spelling in zip(NAMES, spellings, strict=True):
                assert await text_of(client, spelling) == line.format(name), (codec, spelling)


async def test_every_file_is_completed_segment_by_segment(client: LocalClient) -> None:
    for name in NAMES:
        value = ""
        for segment in name.split("/"):
            value = await completed(client, TEMPLATE, "path", value + segment)
        assert await text_of(client, _expanded(TEMPLATE, {"path": value})) == f"first\n{name!r}\n"


async def test_ranges_survive_every_codec_with_the_file(client: LocalClient) -> None:
    uris = [f"{BASE}{quote(name)}?lines=2-2" for name in NAMES]
    for codec, spellings in codecs(uris, []).items():
        for name, spelling in zip(NAMES, spellings, strict=True):
            if not any(lost in quote(name) for lost in LOST.get(codec, ())):
                assert await text_of(client, spelling) == f"{name!r}\n", (codec, spelling)


@pytest.mark.guarantee("no-spelling-reaches-more")
async def test_the_canonical_reading_comes_first(client: LocalClient, tmp_path: Path) -> None:
    uri = f"{BASE}a%20b.md"
    assert await text_of(client, uri) == "first\n'a%20b.md'\n"
    (tmp_path / "the-project/a b.md").write_text("what the URI names")
    assert await text_of(client, uri) == "what the URI names"


async def test_every_row_is_completed_and_read_by_each_client(client: LocalClient) -> None:
    table = await completed(client, ROWS, "table", "th")
    found = await client.request(
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": ROWS},
            "argument": {"name": "key", "value": ""},
            "context": {"arguments": {"table": table}},
        },
    )
    values = found["completion"]["values"]
    assert len(values) == len(KEYS)
    given = [{"template": ROWS, "variables": {"table": table, "key": value}} for value in values]
    for codec, spellings in codecs([], given).items():
        rows = [json.loads(await text_of(client, spelling)) for spelling in spellings]
        assert sorted(row["name"] for row in rows) == sorted(KEYS), codec
