"""Data files in object storage: which objects are tables, and how old what is read may be."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.errors import MountUnavailable
from resource_server.provider import ByteSize
from resource_server.providers.database.engines.duckdb import object_files
from resource_server.providers.database.options import StorageOptions
from resource_server.providers.database.provider import Database
from resource_server.subscriptions.broker import Broker
from tests.commands import command
from tests.listeners import Recorder, mounted
from tests.providers.database.engines.duckdb.test_data_sources import (
    KINDS,
    PEOPLE,
    parquet,
    rows,
    tables,
)
from tests.providers.database.served import FRESH, Served, timed_database
from tests.providers.object_storage.faults import Answer, Asked, before, refused
from tests.providers.object_storage.storage import Storage
from tests.waiting import PATIENCE_S, block_until, quiet_for, until

pytestmark = pytest.mark.anyio

CSV = "id,name\n1,Ann\n2,Bo\n"
OTHER = [{"id": 1, "name": "Ann"}, {"id": 3, "name": "Cy"}]
SOON_S = 0.1
"""An interval of a test that waits for changes."""


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The folder of temporary files, in which nothing may be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    assert list(folder.iterdir()) == []


def database(endpoint: str, url: str, *, interval: float = 60.0, **options: Any) -> Database:
    storage = StorageOptions(endpoint=endpoint, **options.pop("storage", {}))
    return timed_database(
        FRESH, url=f"files:s3://{url}", interval=interval, storage=storage, **options
    )


@asynccontextmanager
async def served(endpoint: str, url: str, **options: Any) -> AsyncGenerator[Served]:
    """Serve data files of a bucket."""
    async with Catalog([mounted(database(endpoint, url, **options))]) as catalog:
        problems = await catalog.start()
        assert problems == {}
        yield Served(catalog, "")


async def problem(endpoint: str, url: str, **options: Any) -> str:
    """Return why data files cannot be served."""
    with pytest.raises(MountUnavailable) as raised:
        async with database(endpoint, url, **options):
            pass
    return str(raised.value)


async def test_every_kind_of_file_has_the_same_rows_as_on_disk(
    storage: Storage, tmp_path: Path
) -> None:
    parquet(tmp_path / "x.parquet")
    files = {**KINDS, "parquet": (tmp_path / "x.parquet").read_bytes()}
    bucket = storage.bucket(
        {f"in/people_{n}.{kind}": data for n, (kind, data) in enumerate(files.items())}
    )
    async with served(storage.endpoint, f"{bucket}/in/*") as view:
        found = await tables(view)
        assert len(found) == len(files)
        for table in found:
            assert await rows(view, table) == PEOPLE, table


async def test_the_objects_that_match_are_those_of_a_pattern_of_paths(storage: Storage) -> None:
    keys = ["a.csv", "b.txt", ".c.csv", "in/d.csv", "in/e/f.csv", "in//g.csv", "in/../h.csv", "in"]
    bucket = storage.bucket(dict.fromkeys(keys, CSV))
    expected = {
        "*.csv": ["a"],
        "**/*.csv": ["a", "in/d", "in/e/f"],
        "in/*": ["d"],
        "in/**/*": ["d", "e/f"],
        "in/e/f.csv": ["f"],
        "[!b]*": ["a"],
        "i*/?.csv": ["in/d"],
    }
    for pattern, names in expected.items():
        async with served(storage.endpoint, f"{bucket}/{pattern.replace('?', '%3F')}") as view:
            assert [each.resource.name for each in await view.entries("")] == names, pattern


async def test_all_objects_of_a_pattern_make_one_table_and_take_sql(storage: Storage) -> None:
    bucket = storage.bucket({"1.csv": CSV, "2.csv": "id,name\n3,Cy\n"})
    async with served(storage.endpoint, f"{bucket}/*.csv?table=people", sql=True) as view:
        assert [row["id"] for row in await rows(view, "people")] == [1, 2, 3]


async def test_a_replaced_a_new_and_a_removed_object_are_noticed_within_the_interval(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"a.csv": CSV, "b.csv": CSV})
    async with served(storage.endpoint, f"{bucket}/*.csv", interval=SOON_S) as view:
        assert await rows(view, "a") == PEOPLE
        storage.put(bucket, "a.csv", CSV.replace("2,Bo", "3,Cy"))
        storage.put(bucket, "c.csv", CSV)
        storage.delete(bucket, "b.csv")

        async def is_current() -> bool:
            return await tables(view) == ["a", "c"] and await rows(view, "a") == OTHER

        await until(is_current)


async def test_a_change_of_an_object_is_notified_to_subscribers_of_its_table(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"a.csv": CSV, "b.csv": CSV})
    provider = database(storage.endpoint, f"{bucket}/*.csv", interval=SOON_S)
    broker, recorder = Broker(Catalog([mounted(provider)]), FRESH), Recorder()
    try:
        await broker.subscribe("test://one/a/2", recorder)
        storage.put(bucket, "b.csv", "id\n9\n")
        storage.put(bucket, "a.csv", CSV.replace("2,Bo", "2,Cy"))
        await recorder.of("a/2")
    finally:
        await broker.close()
        await broker.catalog.__aexit__()


async def test_objects_are_listed_once_an_interval_and_fetched_when_they_change(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"a.csv": CSV, "b.csv": CSV})
    with before(storage.endpoint) as proxy:
        async with served(proxy.endpoint, f"{bucket}/*.csv") as view:
            begun = len(proxy.asked)
            for _ in range(20):
                assert await rows(view, "a") == PEOPLE
            assert proxy.asked[begun:] == []
            fetched = [each.path for each in proxy.asked if not each.is_listing]
            assert sorted(fetched) == [f"/{bucket}/a.csv", f"/{bucket}/b.csv"]
        proxy.asked.clear()
        async with served(proxy.endpoint, f"{bucket}/*.csv", interval=SOON_S):
            storage.put(bucket, "b.csv", "id\n1\n")
            await until(lambda: len(proxy.asked) > 4)
            fetched = [each.path for each in proxy.asked if not each.is_listing]
            assert fetched.count(f"/{bucket}/a.csv") == 1


async def test_what_is_older_than_two_intervals_is_never_read(storage: Storage) -> None:
    bucket = storage.bucket({"a.csv": CSV})
    with before(storage.endpoint) as proxy:
        async with served(proxy.endpoint, f"{bucket}/*.csv", interval=SOON_S) as view:
            storage.put(bucket, "a.csv", CSV.replace("2,Bo", "3,Cy"))
            await quiet_for(3 * SOON_S)  # nobody reads, so nobody looks
            assert await rows(view, "a") == OTHER

            def fail(_: Asked) -> Answer:
                return refused(503, "SlowDown")

            proxy.fault = fail
            await quiet_for(3 * SOON_S)
            for call in (tables(view), rows(view, "a")):
                with pytest.raises(MountUnavailable, match="busy"):
                    await call
            proxy.fault = lambda _: None

            async def is_back() -> bool:
                return await rows(view, "a") == OTHER

            await until(lambda: _holds(is_back))


async def _holds(call: Any) -> bool:
    try:
        return bool(await call())
    except MountUnavailable:
        return False


async def test_a_data_file_is_never_a_mixture_of_two_objects(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_files, "_PART_BYTES", 1000)
    monkeypatch.setattr(object_files, "_RETRY_S", 0.01)
    old, new = ("n\n" + f"{digit}\n" * 2000 for digit in "12")
    bucket = storage.bucket({"a.csv": old})
    left = [new]

    def replace(asked: Asked) -> None:
        if asked.headers.get("range", "").startswith("bytes=1000-") and left:
            storage.put(bucket, "a.csv", left.pop())

    with before(storage.endpoint) as proxy:
        proxy.fault = replace
        assert "replaced" in await problem(proxy.endpoint, f"{bucket}/*.csv")
        async with served(proxy.endpoint, f"{bucket}/*.csv") as view:
            assert {row["n"] for row in await rows(view, "a")} == {2}


async def test_an_object_that_is_refused_is_left_out_and_named(storage: Storage) -> None:
    bucket = storage.bucket({"in/a.csv": CSV, "in/cold.csv": CSV})

    def refuse(asked: Asked) -> Answer | None:
        return refused(403, "InvalidObjectState") if "cold" in asked.path else None

    with before(storage.endpoint) as proxy:
        proxy.fault = refuse
        provider = database(proxy.endpoint, f"{bucket}/in/*.csv")
        async with provider:
            told = "a data file is left out: cold.csv: the storage service refuses it"
            assert provider.engine.left_out == [told]


async def test_why_no_data_files_are_served_is_said_in_words(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = storage.bucket({"a.csv": CSV, "b.txt": "x", "big.csv": "x" * 5000})
    assert await problem(storage.endpoint, f"{bucket}/*.json*") == "no data file matches `url`"
    assert "has none of the names .parquet" in await problem(storage.endpoint, f"{bucket}/b.txt")
    options = {"storage": {"max_size": ByteSize(1000)}}
    told = await problem(storage.endpoint, f"{bucket}/*.csv", **options)
    assert "have 5,019 bytes, and 1,000 are fetched at most" in told
    assert "does not exist" in await problem(storage.endpoint, "no-such-bucket/*.csv")
    monkeypatch.setattr(object_files, "MAX_FILES", 1)
    assert "more than" in await problem(storage.endpoint, f"{bucket}/*.csv")
    monkeypatch.setattr(object_files, "_MAX_PAGES", 1)
    assert "more than 1,000 keys" in await problem(storage.endpoint, "many/**/*.csv")


def test_copies_of_a_killed_process_are_removed_and_those_of_others_are_kept(
    storage: Storage, copies: Path, tmp_path: Path
) -> None:
    bucket = storage.bucket({"a.csv": CSV})
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(
        f"databases: {{it: {{url: 'files:s3://{bucket}/*.csv',"
        f" storage: {{endpoint: '{storage.endpoint}'}}}}}}\n"
    )
    watch = [*command(), "watch", str(manifest), "a"]
    quiet = subprocess.DEVNULL
    # A shell that starts this in the background has it ignored.
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    first, second = (
        subprocess.Popen(watch, stdout=quiet, stderr=quiet, preexec_fn=heeds) for _ in range(2)
    )
    try:
        block_until(lambda: len(list(copies.glob("resource-server-objects-*/*"))) == 2)
        first.kill()
        first.wait(PATIENCE_S)
        listed = subprocess.run(
            [*command(), "list", str(manifest)], capture_output=True, check=True, timeout=PATIENCE_S
        )
        assert b"a" in listed.stdout
        assert len(list(copies.iterdir())) == 1
    finally:
        for each in (first, second):
            each.send_signal(signal.SIGINT)
            each.wait(PATIENCE_S)


def test_check_tells_how_often_the_bucket_is_listed_by_each_replica(
    storage: Storage, tmp_path: Path
) -> None:
    bucket = storage.bucket({"a.csv": CSV})
    manifest = tmp_path / "mcp-resources.yaml"
    place = f"endpoint: '{storage.endpoint}'"
    files = f"url: 'files:s3://{bucket}/*.csv', interval: 30s, storage: {{{place}}}"
    manifest.write_text(
        "server: {key: a secret that all of the replicas have}\nhttp: {metrics: true}\n"
        f"roots: {{lake: {{path: 's3://{bucket}', {place}}}}}\ndatabases: {{it: {{{files}}}}}\n"
    )
    told = subprocess.run(
        [*command(), "check", str(manifest)],
        capture_output=True,
        check=True,
        text=True,
        timeout=PATIENCE_S,
    ).stdout
    assert "poll every 30 s (a request for each 1,000 keys)" in told
    assert "at most 3 polls a minute (lake every 60 s, it every 30 s)" in told
