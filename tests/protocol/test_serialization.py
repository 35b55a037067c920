"""Resources and contents on the wire: valid Unicode, and nothing that cannot be sent."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from resource_server import uris
from resource_server.provider import ByteSize, Content, Resource
from resource_server.providers.database.options import Query
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries.parameters import Parameter
from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.option_types import Duration
from tests.cases import for_each
from tests.protocol.wire import Wire, server_of
from tests.providers_for_tests import Broken, Tree

pytestmark = pytest.mark.anyio

URI = "test://one/bad"
ROOT = Resource(path=(), name="root", type="collection")


@for_each("contents", [[Content("\udcff")], [Content(cast("str", 5))], None, 5])
async def test_unsendable_contents_are_an_internal_error(contents: object) -> None:
    wire = Wire(await server_of(Broken(read=lambda *_: contents)), "2025-11-25")
    assert (await wire.error("resources/read", {"uri": URI}))["code"] == -32603


WRONG: list[dict[str, Any]] = [
    {"name": None},
    {"name": 5},
    {"title": 5},
    {"version": "\udcff"},
    {"details": {"x": object()}},
    {"last_modified": "yesterday"},
    {"formats": ("html",)},
    {"annotations": "none"},
]


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_unsendable_resource_is_left_out_and_its_neighbours_are_listed(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    described = {"a": Resource(path=("a",), name="a"), "b": Resource(path=("b",), name="b")}
    described["a"] = msgspec.structs.replace(described["a"], **wrong)
    provider = Broken(
        list=lambda *_, **__: list(described.values()),
        metadata=lambda path: described[path[0]] if path else ROOT,
        read=lambda *_: [Content("text")],
    )
    wire = Wire(await server_of(provider, Tree({})), "2025-11-25")
    for method, key, params in (
        ("resources/list", "resources", {}),
        ("resources/list", "resources", {"uri": "test://one"}),
        ("resources/read", "contents", {"uri": "test://one"}),
    ):
        found = [entry["uri"] for entry in (await wire.result(method, params))[key]]
        assert "test://one/b" in found
        assert "test://one/a" not in found
    assert "was left out" in caplog.text
    for method in ("resources/read", "resources/metadata"):
        assert (await wire.error(method, {"uri": "test://one/a"}))["code"] == -32603


async def test_options_that_a_plugin_repeats_are_sent_as_plain_numbers_and_text() -> None:
    class Name(str):
        __slots__ = ()

    described = Resource(
        path=("a",),
        name=Name("a"),
        title=Name("A"),
        mime_type=Name("text/plain"),
        size=ByteSize(1024),
        version=Name("1"),
        details={"every": Duration(0.5), "limit": ByteSize(10), "of": [{"it": Name("a")}]},
    )
    provider = Broken(
        list=lambda *_, **__: [described],
        metadata=lambda path: described if path else ROOT,
        read=lambda *_: [Content(Name("text"), Name("text/plain"))],
    )
    wire = Wire(await server_of(provider), "2025-11-25")
    sent = (await wire.result("resources/metadata", {"uri": "test://one/a"}))["resource"]
    assert (sent["name"], sent["title"], sent["size"]) == ("a", "A", 1024)
    details = next(each for name, each in sent["_meta"].items() if name.endswith("details"))
    assert details == {"every": 0.5, "limit": 10, "of": [{"it": "a"}]}
    (content,) = (await wire.result("resources/read", {"uri": "test://one/a"}))["contents"]
    assert content["text"] == "text"


async def test_text_for_display_is_converted_to_valid_unicode() -> None:
    odd = Resource(path=("a\udcff",), name="n\udcff", title="t\udcff", description="d\udcff")
    wire = Wire(await server_of(Broken(metadata=lambda _: odd)), "2025-11-25")
    found = (await wire.result("resources/metadata", {"uri": "test://one/a%FF"}))["resource"]
    assert found["uri"] == "test://one/a%FF"
    assert (found["name"], found["title"], found["description"]) == (
        "n\ufffd",
        "t\ufffd",
        "d\ufffd",
    )


@pytest.mark.parametrize("query", ["", "?lines=1-9", "?bytes=0-99", "?tail=9"])
async def test_a_read_has_the_size_of_the_listing(tmp_path: Path, query: str) -> None:
    text = "naïve €\n"
    encodings = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1252")
    for encoding in encodings:
        (tmp_path / f"{encoding}.txt").write_text(text, encoding)
    wire = Wire(await server_of(Filesystem(tmp_path)), "2025-11-25")
    listed = await wire.result("resources/list", {"uri": "test://one"})
    sizes = {each["uri"]: each["size"] for each in listed["resources"]}
    assert len(sizes) == len(encodings)
    for uri, size in sizes.items():
        (content,) = (await wire.result("resources/read", {"uri": uri + query}))["contents"]
        assert content["size"] == size == (tmp_path / uri.rpartition("/")[2]).stat().st_size


@pytest.mark.parametrize(
    "uri",
    [
        "t/~rows?where.name=a&sort=-id&limit=2",
        "~query/named?name=a",
        "~query/named?format=csv&name=a",
    ],
)
async def test_formats_and_metadata_of_a_page_or_query_keep_its_parameters(
    tmp_path: Path, uri: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as owner:
        owner.execute("create table t (id integer primary key, name text)")
        owner.executemany("insert into t values (?, ?)", [(1, "a"), (2, "other"), (3, "a")])
    sql = "select id, name from t where name = :name order by id desc"
    queries = {"named": Query(sql=sql, parameters={"name": Parameter()})}
    database = Database(url=f"sqlite:///{tmp_path}/shop.db", queries=queries)
    async with database, await server_of(database) as server:
        wire = Wire(server, "2025-11-25")
        uri = f"test://one/{uri}"
        (read,) = (await wire.result("resources/read", {"uri": uri}))["contents"]
        described = (await wire.result("resources/metadata", {"uri": uri}))["resource"]
        assert uris.parse(described["uri"]) == uris.parse(uri)
        assert described["mimeType"] == read["mimeType"]
        assert "size" not in described
        told = described["_meta"]["resource-server/formats"]
        assert told == read["_meta"]["resource-server/formats"]
        for format in told:
            (content,) = (await wire.result("resources/read", {"uri": format["uri"]}))["contents"]
            assert content["mimeType"] == format["mimeType"]
            # The picture of a chart is no text.
            assert "other" not in content.get("text", "")
            assert content["text"].index("3") < content["text"].rindex("1")
        whole = f"test://one/{uri.partition('one/')[2].partition('?')[0]}"
        found = (await wire.result("resources/metadata", {"uri": whole}))["resource"]
        assert found["uri"] == whole
        error = await wire.error("resources/metadata", {"uri": "test://one/t?limit=1"})
        assert "collection takes no query parameters" in error["message"]
