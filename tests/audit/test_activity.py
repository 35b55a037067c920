from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resource_server.access import Caller, acting
from resource_server.audit.activity import Activity
from resource_server.audit.recorder import Recorder
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.protocol.server import Server
from resource_server.testing import check_provider
from tests.audit.records import entry, recorder_of
from tests.protocol.wire import Wire
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

URI = "activity://server/recent"
AUDITOR = Caller("eve", frozenset(("audit",)))
OTHER = Caller("ada", frozenset(("read",)))


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return recorder_of(tmp_path / "audit.jsonl")


async def _server(recorder: Recorder) -> Server:
    activity = Activity()
    activity.recorder = recorder
    mounts = [
        Mount("docs", "test://docs/", Tree({"a": "text"})),
        Mount("activity", "activity://server/", activity, access=frozenset(("audit",))),
    ]
    catalog = Catalog(mounts)
    await catalog.start()
    return Server(catalog, recorder=recorder)


def _rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(result["contents"][0]["text"])["rows"]


@pytest.mark.guarantee("record-is-not-served")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_activity_is_seen_only_with_its_scopes(recorder: Recorder, revision: str) -> None:
    async with await _server(recorder) as server:
        for caller, sees in ((AUDITOR, True), (OTHER, False)):
            wire = Wire(server, revision)
            with acting(caller):
                listed = (await wire.result("resources/list"))["resources"]
                assert (URI in [each["uri"] for each in listed]) is sees
                reply = await wire.call("resources/read", {"uri": URI})
                assert ("result" in reply) is sees
                reply = await wire.call("resources/metadata", {"uri": "activity://server/"})
                assert ("result" in reply) is sees
        with acting(AUDITOR):
            rows = _rows(await Wire(server, revision).result("resources/read", {"uri": URI}))
        assert [each["subject"] for each in rows] == ["ada", "ada", "ada", "eve"]
        # Those of others, to an address that is hidden from them, are of no mount.
        assert [each["decision"] for each in rows[:2]] == ["not found", "not found"]


async def test_reads_of_the_activity_do_not_change_it(recorder: Recorder) -> None:
    async with await _server(recorder) as server:
        wire = Wire(server, "2025-11-25")
        with acting(AUDITOR):
            await wire.result("resources/read", {"uri": "test://docs/a"})
            first = await wire.result("resources/read", {"uri": URI})
            again = await wire.result("resources/read", {"uri": URI})
        assert first == again
        assert [each["uri"] for each in _rows(first)] == ["test://docs/a"]
    assert recorder.counts.written == 4  # with both reads of it, and the end


async def test_a_subscriber_is_notified_of_requests_of_others(recorder: Recorder) -> None:
    async with await _server(recorder) as server:
        wire, other = Wire(server, "2025-11-25"), Wire(server, "2025-11-25")
        with acting(AUDITOR):
            await wire.result("resources/read", {"uri": URI})
            await wire.result("resources/subscribe", {"uri": URI})
        for _ in range(3):
            count = len(wire.updates)
            with acting(OTHER):
                await other.result("resources/read", {"uri": "test://docs/a"})
            await wire.until(lambda count=count: len(wire.updates) > count)
            with acting(AUDITOR):
                await wire.result("resources/read", {"uri": URI})
        await wire.quiet()
        assert len(wire.updates) <= 4


async def test_pages_lead_to_older_requests(recorder: Recorder) -> None:
    for number in range(250):
        recorder.record(entry(number))
    async with await _server(recorder) as server:
        wire = Wire(server, "2025-11-25")
        seen: list[str] = []
        uri: str | None = f"{URI}?limit=90"
        with acting(AUDITOR):
            while uri is not None:
                result = await wire.result("resources/read", {"uri": uri})
                seen += [each["uri"] for each in _rows(result)]
                meta = result["contents"][0]["_meta"].get("resource-server/truncated", {})
                uri = meta.get("next")
        assert seen == [f"file:///docs/{number}" for number in reversed(range(250))]


async def test_parameters_that_cannot_be_used_are_refused(recorder: Recorder) -> None:
    async with await _server(recorder) as server:
        wire = Wire(server, "2025-11-25")
        with acting(AUDITOR):
            for query in ("limit=0", "limit=1001", "limit=x", "before=-1", "x=1"):
                assert (await wire.error("resources/read", {"uri": f"{URI}?{query}"}))["code"] == (
                    -32602
                )
            for path in ("x", "recent/2"):
                assert await wire.error("resources/read", {"uri": f"activity://server/{path}"})


async def test_the_activity_keeps_to_the_contract(recorder: Recorder) -> None:
    activity = Activity()
    assert activity.metadata(()).version == activity.metadata(()).version
    activity.recorder = recorder
    recorder.record(entry(1))
    await check_provider(activity)
