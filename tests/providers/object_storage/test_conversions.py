from __future__ import annotations

import pytest

from resource_server.errors import ConversionError, InvalidParameter, ResourceNotFound
from resource_server.providers.object_storage import conversions
from resource_server.providers.object_storage.provider import ObjectStorage
from resource_server.testing import check_provider
from tests.providers.object_storage.faults import before
from tests.providers.object_storage.storage import Storage

pytestmark = pytest.mark.anyio

PAGE = "<html><body><h1>Prices</h1><p>twelve <b>euros</b></p></body></html>"
TABLE = "name,price\ncup,12\n"


async def markdown(provider: ObjectStorage, *path: str, **query: str) -> str:
    (content,) = await provider.read(path, {"format": "markdown", **query})
    return str(content.data)


async def test_objects_are_served_in_other_formats_as_files_are(storage: Storage) -> None:
    bucket = storage.bucket(
        {"a/prices.html": PAGE, "t.csv": TABLE, "x.txt": "x", ".env.html": PAGE}
    )
    await check_provider(storage.provider(bucket))
    async with storage.provider(bucket) as provider:
        described = await provider.metadata(("a", "prices.html"))
        assert "markdown" in [each.name for each in described.formats]
        assert await markdown(provider, "a", "prices.html") == "# Prices\n\ntwelve **euros**\n"
        assert "twelve" in await markdown(provider, "a", "prices.html", lines="3-3")
        assert await provider.complete("format", "mark", given={"path": "a/prices.html"}) == [
            "markdown"
        ]
        for path in ((".env.html",), ("absent.html",)):
            with pytest.raises(ResourceNotFound):
                await markdown(provider, *path)
        with pytest.raises(InvalidParameter):
            await markdown(provider, "x.txt")
        assert (await provider.fetch(("a",), {"format": "text"}))[1] == ()


async def test_without_converters_there_are_no_other_formats(storage: Storage) -> None:
    bucket = storage.bucket({"prices.html": PAGE})
    async with storage.provider(bucket, convert="off") as provider:
        assert (await provider.metadata(("prices.html",))).formats == ()
        with pytest.raises(InvalidParameter):
            await markdown(provider, "prices.html")


async def test_an_object_is_fetched_once_until_it_is_another(storage: Storage) -> None:
    bucket = storage.bucket({"prices.html": PAGE})
    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:

            def fetched() -> int:
                return sum(each.method == "GET" and not each.is_listing for each in proxy.asked)

            for line in ("1-1", "3-3", "1-"):
                await markdown(provider, "prices.html", lines=line)
            assert fetched() == 1
            storage.put(bucket, "prices.html", PAGE.replace("twelve", "nine"))
            assert "nine" in await markdown(provider, "prices.html")
            assert fetched() == 2


async def test_an_object_that_is_too_large_to_fetch_is_refused_before(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversions, "MAX_FETCHED_BYTES", 10)
    bucket = storage.bucket({"prices.html": PAGE})
    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            with pytest.raises(ConversionError, match="up to 10 are fetched"):
                await markdown(provider, "prices.html")
            assert all(each.is_listing or each.method == "HEAD" for each in proxy.asked)


async def test_what_is_kept_of_fetched_objects_is_bounded(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversions, "_MAX_KEPT", 2)
    bucket = storage.bucket({f"{number}.html": PAGE for number in range(3)})
    with before(storage.endpoint) as proxy:
        async with ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint) as provider:
            for number in (0, 1, 1, 0, 2, 1):
                assert "Prices" in await markdown(provider, f"{number}.html")
            gets = [each for each in proxy.asked if each.method == "GET" and not each.is_listing]
            assert [each.path[-6:] for each in gets] == ["0.html", "1.html", "2.html", "1.html"]
