from __future__ import annotations

import time

import pytest

from resource_server.errors import ResourceNotFound
from resource_server.provider import Path
from resource_server.provider.search import SearchRequest
from resource_server.providers.object_storage import object_tree, survey
from resource_server.providers.object_storage.provider import ObjectStorage
from resource_server.testing import LocalClient
from tests.protocol.wire import server_of
from tests.providers.object_storage.faults import before
from tests.providers.object_storage.moto_process import DEEP
from tests.providers.object_storage.storage import Storage

pytestmark = pytest.mark.anyio


async def found(
    provider: ObjectStorage,
    text: str,
    *,
    below: Path = (),
    after: str | None = None,
    limit: int = 100,
    time_s: float = 10,
) -> list[str]:
    """Return the paths of all hits by name, page after page."""
    paths: list[str] = []
    places: list[str | None] = []
    while True:
        page = await provider.search(
            SearchRequest(text=text, where="names"),
            below=below,
            after=after,
            limit=limit,
            deadline=time.monotonic() + time_s,
        )
        paths += ["/".join(hit.resource.path) for hit in page.hits]
        after = page.next
        if after is None:
            return paths
        assert after not in places, places
        places.append(after)


async def passed(provider: ObjectStorage, last: str) -> str | None:
    """Search key by key until a hit; return where the next page goes on."""
    after: str | None = None
    while True:
        page = await provider.search(
            SearchRequest(text="report", where="names"),
            below=(),
            after=after,
            limit=1,
            deadline=time.monotonic(),
        )
        after = page.next
        if ["/".join(hit.resource.path) for hit in page.hits] == [last]:
            return after


async def test_a_search_finds_names_of_objects_and_collections(storage: Storage) -> None:
    keys = [
        "report.md",
        "a/report.csv",
        "reports/x.md",
        "b",
        "b/report",
        ".env.report",
        "a//report",
    ]
    bucket = storage.bucket(dict.fromkeys(keys, "x"))
    async with storage.provider(bucket) as provider:
        expected = {"report.md", "a/report.csv", "reports", "b/report"}
        assert set(await found(provider, "report")) == expected
        assert await found(provider, "report", below=("a",)) == ["a/report.csv"]
        assert await found(provider, "report", below=("report.md",)) == ["report.md"]
        for limit in (1, 2, 3):
            assert sorted(await found(provider, "report", limit=limit)) == sorted(expected)
        assert sorted(await found(provider, "report", time_s=-1)) == sorted(expected)
        with pytest.raises(ResourceNotFound):
            await found(provider, "report", below=("absent",))


async def test_a_page_of_a_search_asks_for_so_many_pages_of_keys_at_most(storage: Storage) -> None:
    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path="s3://deep", endpoint=proxy.endpoint) as provider:
            begun = len(proxy.asked)
            page = await provider.search(
                SearchRequest(text="02999.txt", where="names"),
                below=(),
                after=None,
                limit=10,
                deadline=time.monotonic() + 20,
            )
            assert [hit.resource.path[-1] for hit in page.hits] == [f"{DEEP - 1:05}.txt"]
            assert len(proxy.asked) - begun <= DEEP // 1000 + 2
            hurried = await provider.search(
                SearchRequest(text="02999.txt", where="names"),
                below=(),
                after=None,
                limit=10,
                deadline=time.monotonic(),
            )
            assert (list(hurried.hits), hurried.looked_at) == ([], 1100)
            assert hurried.next is not None


@pytest.mark.parametrize("stays", [True, False])
async def test_a_search_misses_nothing_where_an_object_becomes_a_collection(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, *, stays: bool
) -> None:
    monkeypatch.setattr(object_tree, "MAX_KEYS", 1)
    bucket = storage.bucket(dict.fromkeys(["report", "report-1", "report.md", "z"], "x"))
    async with storage.provider(bucket) as provider:
        after = await passed(provider, "report")
        storage.put(bucket, "report/report", "x")
        if not stays:
            storage.delete(bucket, "report")
        assert await found(provider, "report", limit=1, time_s=-1) != []  # it learns the kind
        rest = await found(provider, "report", after=after, limit=1, time_s=-1)
        assert [each for each in rest if each != "report"] == [
            "report-1",
            "report.md",
            "report/report",
        ]


async def test_a_search_repeats_nothing_where_a_collection_becomes_an_object(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_tree, "MAX_KEYS", 1)
    keys = ["report-1", "report.md", "report/x", "reports", "z"]
    bucket = storage.bucket(dict.fromkeys(keys, "x"))
    async with storage.provider(bucket) as provider:
        after = await passed(provider, "report")
        storage.delete(bucket, "report/x")
        storage.put(bucket, "report", "x")
        assert await found(provider, "report", after=after, limit=1, time_s=-1) == ["reports"]


@pytest.mark.guarantee("secrets-stay-hidden")
async def test_the_place_at_which_a_search_goes_on_names_nothing_hidden(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_tree, "MAX_KEYS", 3)
    keys = ["a.key", "b.key", "c.key", "d.txt", "e.key", "f.key", "g.key", "h.txt"]
    bucket = storage.bucket(dict.fromkeys(keys, "x"))
    async with storage.provider(bucket) as provider:
        page = await provider.search(
            SearchRequest(text="x", where="names"),
            below=(),
            after=None,
            limit=1,
            deadline=time.monotonic(),
        )
        assert page.next == "d.txt"


async def test_the_server_searches_the_text_of_objects(storage: Storage) -> None:
    bucket = storage.bucket({"a/x.md": "one\nneedle here\n", "b.txt": "hay", "c.bin": b"\0needle"})
    async with (
        await server_of(storage.provider(bucket)) as server,
        LocalClient(server) as connected,
    ):
        result = await connected.request(
            "tools/call", {"name": "search_resources", "arguments": {"query": "needle"}}
        )
        assert "needle here" in str(result)


async def test_check_counts_what_is_not_served(storage: Storage) -> None:
    keys = ["a", "a/x", "x//y", "../e", "mark/", "tab\there", "ok.txt", ".env"]
    bucket = storage.bucket(dict.fromkeys(keys, "x"))
    async with storage.provider(bucket, exclude=("ok.txt",)) as provider:
        said = [text for _, text in await provider.warnings(thorough=True)]
        assert said[0].startswith("keys that are no paths, and not served: 3 (")
        assert "'x//y'" in said[0]
        assert said[1:] == ["objects hidden by collections of the same name: 1 ('a')"]
        assert await provider.warnings(thorough=False) == ()
        assert dict(await provider.hides(limit=10)) == {
            (".env",): "secret: matches '*.env'",
            ("ok.txt",): "excluded by 'ok.txt'",
        }
        assert provider.watched_by.startswith("poll every 60 s, at most 1000 requests an hour")
        assert provider.explain(("ok.txt",)) == "excluded by 'ok.txt'"
        assert provider.explain(("a",)).startswith("exposed")
        assert provider.explain(("x", "..")).startswith("no path")


async def test_a_survey_of_a_large_bucket_ends_and_says_so(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "_MAX_PAGES", 1)
    async with storage.provider("deep") as provider:
        said = [text for _, text in await provider.warnings(thorough=True)]
    assert said == ["only the first 1,000 keys were looked through, at 1,000 a request"]
