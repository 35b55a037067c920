"""Every call that a result names: its tool takes it, and a chain of them has the whole."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import sqlite3
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from resource_server.protocol.tools.registry import ToolSettings
from resource_server.providers.database.provider import Database
from resource_server.providers.filesystem import Filesystem
from tests.conversion.portable import xlsx
from tests.protocol.tools.tooled import words
from tests.protocol.wire import Wire, server_of

pytestmark = pytest.mark.anyio

BUDGET = 6_000
MAX_CALLS = 300
MEMBERS = 40
"""Characters for the names of the members, which are longer than the words of a short text."""
ROWS = 400
LONG_TEXT = "".join(f"line {n} of a long text with a word\n" for n in range(600))
WIDE_TEXT = "word " + "".join(f"{n:07}" for n in range(2_000))
CELL = "".join(f"{n:07}" for n in range(2_000))
DATA = bytes(range(256)) * 40
SQL = """
create table notes (id integer primary key, title text not null unique, note text);
create table products (sku text primary key, name text);
insert into products values ('SKU/1', 'one'), ('plain', 'two'), ('a/b/c', 'three');
"""
BOTH = "folder and database"
WIDE = ", ".join(f"column_{n} text" for n in range(40))


class Hint(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    goes_on: bool
    """Whether it is the rest of the result, rather than another thing to do."""


def make_database(file: Path) -> Database:
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(SQL)
        database.execute(f"create table wide (id integer primary key, {WIDE})")
        rows = [(n, f"title {n}", CELL if n in (2, 140) else "word") for n in range(ROWS)]
        database.executemany("insert into notes values (?, ?, ?)", rows)
        marks = ",".join("?" * 41)
        values = [(n, *["x" * 400] * 40) for n in range(30)]
        database.executemany(f"insert into wide values ({marks})", values)  # noqa: S608
    return Database(f"sqlite:///{file}")


def make_folder(folder: Path) -> Filesystem:
    folder.mkdir()
    files: Mapping[str, str | bytes] = {
        "long.txt": LONG_TEXT,
        "wide.txt": WIDE_TEXT,
        "data.bin": DATA,
        "sheet.xlsx": xlsx(
            "".join(
                f'<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="B{n}"><v>{n + 5_000}</v></c></row>'
                for n in range(1, 900)
            )
        ),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    (folder / "many").mkdir()
    for number in range(300):
        (folder / "many" / f"a file with a name {number}.txt").write_text("word\n")
    return Filesystem(folder)


@pytest.fixture(params=["database alone", BOTH])
async def wire(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Wire]:
    providers: list[Any] = [make_database(tmp_path / "shop.db")]
    if request.param == BOTH:
        providers.append(make_folder(tmp_path / "folder"))
    server = await server_of(*providers, tools=ToolSettings(budget=BUDGET))
    async with server:
        yield Wire(server, "2025-11-25")


class Caller:
    """Calls tools as a strict host does: with arguments that the offered schemas take."""

    def __init__(self, wire: Wire, tools: list[dict[str, Any]]) -> None:
        self._wire = wire
        self._schemas: dict[str, Any] = {
            tool["name"]: Draft202012Validator(tool["inputSchema"]) for tool in tools
        }

    @classmethod
    async def of(cls, wire: Wire) -> Caller:
        return cls(wire, (await wire.result("tools/list", {}))["tools"])

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self._schemas[name].validate(arguments)
        result = await self._wire.result("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), (name, arguments, words(result))
        if name in ("list_resources", "resource_metadata") or "show" in arguments:
            structured = result["structuredContent"]
            encoded = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
            names = MEMBERS if "show" in arguments else 0
            assert len(encoded) <= 1.3 * len(words(result)) + names
        return result

    def hints(self, name: str, arguments: Mapping[str, Any], text: str) -> Iterator[Hint]:
        """Yield the calls that a text names: JSON, perhaps after the name of a tool."""
        for found in re.finditer(r'(?:(\w+) )?(?=\{")', text):
            try:
                given, _ = json.JSONDecoder().raw_decode(text, found.end())
            except ValueError:
                continue
            before = text[: found.start()]
            goes_on = before.endswith(("Read on: ", "call again with ", "From its beginning: "))
            known = found[1] in self._schemas
            if goes_on or known or before.endswith(": "):
                yield Hint(found[1] if known else name, given, goes_on)
        if cursor := re.search(r"call again with cursor=(\S+)", text):
            yield Hint(name, {**arguments, "cursor": cursor[1]}, goes_on=True)

    async def chain(self, name: str, **arguments: Any) -> list[dict[str, Any]]:
        """Return the results of a call and of those that go on; make all others once, too."""
        results: list[dict[str, Any]] = []
        asked: Hint | None = Hint(name, arguments, goes_on=True)
        while asked is not None:
            assert len(results) < MAX_CALLS
            results.append(await self.call(asked.tool, asked.arguments))
            hints = [*self.hints(asked.tool, asked.arguments, words(results[-1]))]
            for hint in hints:
                if not hint.goes_on:
                    await self.call(hint.tool, hint.arguments)
            asked = next((hint for hint in hints if hint.goes_on), None)
        return results


def first_texts(results: list[dict[str, Any]]) -> list[str]:
    return [result["content"][0]["text"] for result in results]


def ids(results: list[dict[str, Any]]) -> list[int]:
    """Return the ids of pages as CSV, each with its header."""
    pages = [csv.DictReader(io.StringIO(text, newline="")) for text in first_texts(results)]
    return [int(row["id"]) for page in pages for row in page]


async def test_rows_are_read_to_the_last_by_following_the_hints(wire: Wire) -> None:
    caller = await Caller.of(wire)
    rows = "test://one/notes/~rows"
    assert ids(await caller.chain("read_resource", uri=f"{rows}?format=csv")) == [*range(ROWS)]
    wide = await caller.chain("read_resource", uri="test://one/wide/~rows", format="csv")
    assert ids(wide) == [*range(30)]
    some = await caller.chain("query_table", uri="test://one/notes", where={"id.lt": 99})
    assert ids(some) == [*range(99)]


async def test_exactly_the_rows_that_were_asked_for_are_read(wire: Wire) -> None:
    caller = await Caller.of(wire)
    few = await caller.chain("query_table", uri="test://one/notes", limit=3, columns="id,title")
    assert (len(few), ids(few)) == (1, [0, 1, 2])
    many = await caller.chain("query_table", uri="test://one/notes", limit=350)
    assert (len(many) > 1, ids(many)) == (True, [*range(350)])


async def test_a_value_longer_than_a_result_is_read_whole_at_its_address(wire: Wire) -> None:
    caller = await Caller.of(wire)
    page = await caller.call("read_resource", {"uri": "test://one/notes/~rows?where.id=2"})
    text = words(page)
    address = re.search(r"test://one/notes/2/~cell/note", text)
    assert address is not None
    assert address.start() < text.index(CELL[:16])
    whole = await caller.chain("read_resource", uri=address[0])
    assert len(whole) > 1
    assert "".join(first_texts(whole)) == CELL


async def test_the_first_look_at_a_table_leads_to_its_rows(wire: Wire) -> None:
    caller = await Caller.of(wire)
    for uri in ("test://one/notes", "notes"):
        first, *others = await caller.chain("read_resource", uri=uri)
        assert len(words(first)) <= 4_000
        shown, _, _ = first["content"][0]["text"].partition("\n\n400 rows, the first ")
        assert "- `title` `TEXT` not null, unique\n" in shown
        page = first["content"][0]["text"].rpartition(":\n\n")[2]
        begin = [int(row["id"]) for row in csv.DictReader(io.StringIO(page, newline=""))]
        assert begin + ids(others) == [*range(ROWS)]


async def test_all_other_hints_of_every_tool_are_taken(wire: Wire) -> None:
    caller = await Caller.of(wire)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_resources", {}),
        ("list_resources", {"depth": 3}),
        ("list_resources", {"pattern": "note"}),
        ("list_resources", {"pattern": "*o*"}),
        ("read_resource", {"uri": "test://one"}),
        ("read_resource", {"uri": "test://one/notes/~schema"}),
        ("read_resource", {"uri": "test://one/wide"}),
        ("read_resource", {"uri": "test://one/products", "rows": "2"}),
        ("query_table", {"uri": "products", "by": "name"}),
        ("search_resources", {"query": "title", "in": "names"}),
        *(
            ("search_resources", {"query": "title", "show": show, **more})
            for show in ("files", "counts")
            for more in ({}, {"in": "names"}, {"uri": "notes"}, {"uri": "test://one/notes/7"})
        ),
        ("resource_metadata", {"uri": "notes"}),
    ]
    for name, arguments in calls:
        assert await caller.chain(name, **arguments)


@pytest.mark.parametrize("wire", [BOTH], indirect=True)
async def test_documents_of_a_folder_are_read_whole(wire: Wire) -> None:
    caller = await Caller.of(wire)
    for name, text in (("long.txt", LONG_TEXT), ("wide.txt", WIDE_TEXT)):
        for uri in (f"test://two/{name}", name):
            results = await caller.chain("read_resource", uri=uri)
            assert len(results) > 1
            assert "".join(first_texts(results)) == text
    results = await caller.chain("read_resource", uri="test://two/data.bin")
    blobs = [result["content"][0]["resource"]["blob"] for result in results]
    assert b"".join(map(base64.b64decode, blobs)) == DATA
    sheet = "".join(first_texts(await caller.chain("read_resource", uri="test://two/sheet.xlsx")))
    assert [n for n in range(1, 900) if str(n + 5_000) not in sheet] == []
    for name, arguments in (
        ("list_resources", {"uri": "test://two/many"}),
        ("list_resources", {"uri": "many"}),
        ("read_resource", {"uri": "many"}),
        ("search_resources", {"query": "word", "uri": "test://two/long.txt"}),
        ("search_resources", {"query": "word", "uri": "many"}),
        ("search_resources", {"query": "word"}),
    ):
        assert await caller.chain(name, **arguments)
    for show in ("files", "counts"):
        for more in ({"uri": "long.txt"}, {"uri": "many"}, {"in": "text"}):
            asked = {"query": "word", "show": show, **more}
            pages = await caller.chain("search_resources", **asked)
            contents = [page["structuredContent"] for page in pages]
            found = [
                content["base"] + path for content in contents for path in content.get(show, ())
            ]
            assert (
                len(found)
                == len(set(found))
                == {"long.txt": 1, "many": 300}.get(more.get("uri", ""), 302 + ROWS - 2)
            )
            assert contents[-1]["matches"] == sum(content["shown"] for content in contents)
            assert len(pages) < 6


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("test://one/products/~tSKU~2F1", "one"),
        ("test://one/products/SKU%2F1", "one"),
        ("test://one/products/SKU/1", "one"),
        ("products/SKU%2F1", "one"),
        ("products/SKU/1", "one"),
        ("/products/plain", "two"),
        ("products/a/b/c", "three"),
        ("products/a%2fb/c/~cell/name", "three"),
    ],
)
async def test_keys_are_taken_as_people_write_them(wire: Wire, uri: str, name: str) -> None:
    caller = await Caller.of(wire)
    assert name in words(await caller.call("read_resource", {"uri": uri}))


@pytest.mark.parametrize(
    ("uri", "near"),
    [
        ("test://one/products/SKU%2F2", "test://one/products/~tSKU~2F1"),
        ("test://one/products/plane", "test://one/products/plain"),
        ("test://one/notes/999", "test://one/notes"),
        ("note", "test://one/notes"),
    ],
)
async def test_what_is_not_found_gets_a_suggestion(wire: Wire, uri: str, near: str) -> None:
    result = await wire.result("tools/call", {"name": "read_resource", "arguments": {"uri": uri}})
    assert result["isError"]
    assert f"Did you mean {near}" in words(result)


@pytest.mark.parametrize("length", [5, 60, 9_000])
async def test_the_first_look_at_twenty_columns_takes_fewer_than_4000_characters(
    tmp_path: Path, length: int
) -> None:
    columns = ", ".join(f"name_of_column_{n} text not null default 'x'" for n in range(19))
    with closing(sqlite3.connect(tmp_path / "crm.db")) as database, database:
        database.execute(f"create table customers (id integer primary key, {columns})")
        rows = [(n, *["é" * length] * 19) for n in range(1_000 if length < 100 else 20)]
        database.executemany(f"insert into customers values ({','.join('?' * 20)})", rows)  # noqa: S608
    server = await server_of(Database(f"sqlite:///{tmp_path / 'crm.db'}"))
    async with server:
        wire = Wire(server, "2025-11-25")
        caller = await Caller.of(wire)
        uri = "test://one/customers"
        text = words(await caller.call("read_resource", {"uri": uri}))
        assert len(text) < 4_000
        assert all(f"`name_of_column_{n}` `TEXT` not null" in text for n in range(19))
        assert f"{len(rows):,} rows, the first " in text
        assert ids(
            await caller.chain("read_resource", uri=f"{uri}/~rows?columns=id&format=csv")
        ) == [*range(len(rows))]
        contents = (await wire.result("resources/read", {"uri": uri}))["contents"]
        assert [each["uri"] for each in contents] == [f"{uri}/~rows", f"{uri}/~schema"]
        (page,) = [await wire.result("resources/list", {"uri": uri})]
        assert len(page["resources"]) > 20
