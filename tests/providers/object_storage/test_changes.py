from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.providers.object_storage.provider import ObjectStorage, Polling
from resource_server.runtime.option_types import Duration, Rate
from resource_server.runtime.timing import Timing
from resource_server.subscriptions.broker import Broker
from tests.commands import command
from tests.listeners import IMPATIENT, LIST, Recorder, mounted, uri_of
from tests.providers.object_storage.faults import Answer, Asked, Proxy, before, refused
from tests.providers.object_storage.storage import Storage
from tests.waiting import PATIENCE_S, quiet_for, steady, until

pytestmark = pytest.mark.anyio
QUICK = Polling(Duration(0.1), Rate(1000))
DOCS = Path(__file__).parents[3] / "docs/object-storage.md"


class Scene:
    """A bucket behind a proxy that is served and watched, and one listener."""

    def __init__(self, proxy: Proxy, bucket: str, polling: Polling, timing: Timing) -> None:
        self.proxy = proxy
        provider = ObjectStorage(path=f"s3://{bucket}", endpoint=proxy.endpoint, watch=polling)
        self.broker = Broker(Catalog([mounted(provider)]), timing)
        self.recorder = Recorder()

    async def subscribe(self, *paths: str) -> None:
        for path in paths:
            await self.broker.subscribe(uri_of(path), self.recorder)


@asynccontextmanager
async def watched(
    storage: Storage, bucket: str, polling: Polling = QUICK, timing: Timing = IMPATIENT
) -> AsyncGenerator[Scene]:
    with before(storage.endpoint) as proxy:
        scene = Scene(proxy, bucket, polling, timing)
        try:
            yield scene
        finally:
            await scene.broker.close()
            await scene.broker.catalog.__aexit__()


async def test_a_changed_object_and_a_new_and_a_removed_one_are_notified(storage: Storage) -> None:
    bucket = storage.bucket({"in/a.txt": "a", "in/b.txt": "b", "c.txt": "c"})
    async with watched(storage, bucket) as scene:
        await scene.subscribe("in/a.txt", "in")
        storage.put(bucket, "in/a.txt", "another")
        await scene.recorder.of("in/a.txt", "in")
        scene.recorder.take()
        storage.put(bucket, "in/new.txt", "new")
        await scene.recorder.of("in")
        scene.recorder.take()
        storage.delete(bucket, "in/a.txt")
        await scene.recorder.of("in/a.txt", "in")
        assert "c.txt" not in scene.recorder.told


async def test_only_what_is_subscribed_to_is_asked_for(storage: Storage) -> None:
    bucket = storage.bucket({"in/a.txt": "a", "in/b.txt": "b", "out/c.txt": "c"})
    async with watched(storage, bucket, timing=Timing(sweep_s=0.01)) as scene:
        await scene.subscribe("in/a.txt")
        begun = len(scene.proxy.asked)
        await until(lambda: len(scene.proxy.asked) > begun + 5)
        asked = scene.proxy.asked[begun:]
        assert {each.method for each in asked} == {"HEAD"}
        assert {each.path for each in asked} == {f"/{bucket}/in/a.txt"}


async def test_a_budget_bounds_the_requests_of_comparisons(storage: Storage) -> None:
    bucket = storage.bucket({f"{number}.txt": "x" for number in range(5)})
    polling = Polling(Duration(0.1), Rate(1 / 3600))
    async with watched(storage, bucket, polling, Timing(sweep_s=0.01)) as scene:
        await scene.subscribe(*(f"{number}.txt" for number in range(5)))
        await steady(lambda: len(scene.proxy.asked), 0.3)
        begun = len(scene.proxy.asked)
        await quiet_for(0.5)  # several intervals and sweeps
        assert len(scene.proxy.asked) == begun


async def test_a_change_is_notified_after_a_time_without_the_service(storage: Storage) -> None:
    bucket = storage.bucket({"a.txt": "a"})

    def fail(_: Asked) -> Answer:
        return refused(503, "SlowDown")

    async with watched(storage, bucket) as scene:
        await scene.subscribe("a.txt")
        scene.proxy.fault = fail
        begun = len(scene.proxy.asked)
        storage.put(bucket, "a.txt", "another")
        await until(lambda: len(scene.proxy.asked) > begun)
        assert scene.recorder.told == []
        scene.proxy.fault = lambda _: None
        await scene.recorder.of("a.txt")


async def test_new_and_removed_objects_are_a_change_of_the_list_and_hidden_ones_are_none(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"in/a.txt": "a", "b.txt": "b"})
    async with watched(storage, bucket) as scene:
        begun = len(scene.proxy.asked)
        await steady(lambda: len(scene.proxy.asked), 0.3)
        assert len(scene.proxy.asked) == begun  # nobody follows it yet
        scene.broker.follow_list(scene.recorder)
        await scene.recorder.of(LIST)  # objects this new may be newer than the list of a client
        for change in (
            lambda: storage.put(bucket, "in/new/x.txt", "x"),
            lambda: storage.delete(bucket, "b.txt"),
        ):
            await until(lambda: len(scene.proxy.asked) > begun + 2)
            scene.recorder.take()
            change()
            await scene.recorder.of(LIST)
        scene.recorder.take()
        storage.put(bucket, ".hidden", "x")
        storage.put(bucket, "in/a.txt", "another")
        begun = len(scene.proxy.asked)
        await until(lambda: len(scene.proxy.asked) > begun + 3)
        assert scene.recorder.told == []


async def test_a_change_of_the_list_while_the_service_fails_is_notified_later(
    storage: Storage,
) -> None:
    bucket = storage.bucket({"a.txt": "a"})
    async with watched(storage, bucket) as scene:
        scene.broker.follow_list(scene.recorder)
        await scene.recorder.of(LIST)
        await until(lambda: len(scene.proxy.asked) > 4)
        scene.recorder.take()
        scene.proxy.fault = lambda _: refused(503, "SlowDown")
        begun = len(scene.proxy.asked)
        storage.put(bucket, "b.txt", "b")
        await until(lambda: len(scene.proxy.asked) > begun + 3)
        assert scene.recorder.told == []
        scene.proxy.fault = lambda _: None
        await scene.recorder.of(LIST)


def test_the_example_of_the_docs_prints_what_is_in_the_bucket(
    storage: Storage, tmp_path: Path
) -> None:
    (block,) = re.findall(r"^```sh\n(moto_server.*?)^```$", DOCS.read_text(), re.M | re.S)
    _, lines = block.split("\n", 1)
    lines = lines.replace("http://127.0.0.1:9000", storage.endpoint)
    lines = lines.replace("resource-server", " ".join(command()))
    done = subprocess.run(
        ["bash", "-euc", lines],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "orders.csv" in done.stdout
    assert "paid,12" in done.stdout
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(
        f"roots: {{lake: {{path: 's3://acme-lake/2026', endpoint: '{storage.endpoint}',"
        " watch: {interval: 100ms, budget: 36000/h}}}\n"
    )
    watch = [*command(), "watch", str(manifest), "orders.csv"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"1 " in process.stderr.readline()
        storage.put("acme-lake", "2026/orders.csv", "paid,13")
        assert b"orders.csv" in process.stdout.readline()
        process.terminate()
