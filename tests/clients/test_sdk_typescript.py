"""The TypeScript clients talk to the server in processes of its own.

`npm install --no-package-lock --prefix tests/clients` brings them; without them, or without Node,
these tests are skipped.
"""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients import typescript
from tests.clients.conftest import BLOB, ROOT, TEXT, TRANSPORTS, Reach, serve

HERE = Path(__file__).parent
REVISIONS = {
    "v1": ("2024-11-05", "2025-11-25"),
    "v2": ("2025-03-26", "2025-11-25", "2026-07-28"),
}
README = "file:///project/docs/read%20me.md"
WATCHED = "file:///project/watched/read%20me.md"

pytestmark = [pytest.mark.deep, typescript.NEEDS]


@pytest.fixture(scope="module")
def everything(
    serving: list[str],
    slow: Callable[[], list[str]],
    changing: Callable[[], Path],
    reach: Reach,
) -> dict[tuple[str, str], dict[str, Any]]:
    """What both clients saw, by client and transport, and by revision: all processes at once."""
    running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
    for client, transport in itertools.product(REVISIONS, TRANSPORTS):
        revisions = REVISIONS[client]
        folders = {revision: changing() for revision in revisions}
        asked = {
            "client": client,
            "revisions": revisions,
            "serving": reach(serving, transport),
            "slow": {revision: reach(slow(), transport) for revision in revisions},
            "changing": {
                revision: {"folder": str(folder), "serving": reach(serve(folder), transport)}
                for revision, folder in folders.items()
            },
            "cwd": str(ROOT),
        }
        command = ["node", str(HERE / "client.mjs"), json.dumps(asked)]
        running[client, transport] = subprocess.Popen(command, stdout=subprocess.PIPE)
    return {key: json.loads(run.communicate(timeout=50)[0]) for key, run in running.items()}


CASES = [
    (client, transport, revision)
    for client, transport in itertools.product(REVISIONS, TRANSPORTS)
    for revision in REVISIONS[client]
]


@pytest.fixture(params=CASES, ids="-".join)
def seen(request: pytest.FixtureRequest, everything: dict[tuple[str, str], dict[str, Any]]) -> Any:
    """What one client saw in one revision."""
    client, transport, revision = request.param
    seen = everything[client, transport][revision]
    assert seen["revision"] == revision
    return {**seen, "client": client, "transport": transport}


@pytest.mark.guarantee("every-revision")
def test_all_pages_of_the_listing_are_read(seen: Any, listed: list[str]) -> None:
    assert seen["listed"] == listed


def test_the_children_of_a_collection_are_listed(seen: Any) -> None:
    assert seen["children"] == [README]


def test_the_typed_client_keeps_the_resource_type_in_meta(seen: Any) -> None:
    assert seen["typed"] == ["collection", "collection", "collection", "document"]
    assert seen["text"]["_meta"]["resource-server/resourceType"] == "document"


@pytest.mark.guarantee("every-revision")
def test_text_and_blobs_are_read(seen: Any) -> None:
    assert (seen["text"]["text"], seen["text"]["mimeType"]) == (TEXT, "text/markdown")
    assert base64.b64decode(seen["blob"]) == BLOB


def test_not_found_is_recognized_by_the_client(seen: Any) -> None:
    assert seen["absent"]["data"] == {"uri": "file:///project/absent"}
    if seen["client"] == "v2":
        assert seen["absent"]["name"] == "ResourceNotFoundError"
    else:
        assert seen["absent"]["code"] == -32002


def test_raw_requests_reach_the_extension(seen: Any) -> None:
    assert seen["metadata"]["resourceType"] == "document"
    assert seen["metadata"]["capabilities"] == {"list": False, "subscribe": True}


def test_templates_are_listed_and_their_variables_completed(seen: Any) -> None:
    assert "file:///project/{+path}" in seen["templates"]
    assert seen["completed"] == ["docs/read me.md"]


def test_progress_reaches_the_client(seen: Any) -> None:
    assert seen["progress"]
    assert seen["progress"] == [[done + 1, 5] for done in range(len(seen["progress"]))]


def test_a_client_timeout_cancels_the_request(seen: Any) -> None:
    assert seen["refused"] is not None
    assert seen["cancelled"] == "1"


def test_subscribed_resources_notify_the_client(seen: Any) -> None:
    updated = ["notifications/resources/updated", WATCHED]
    # Over HTTP a listen knows nothing of what was read by another request.
    count = 1 if seen["transport"] == "http" and seen["revision"] >= "2026" else 2
    assert seen["told"] == [updated] * count + [["notifications/resources/list_changed"]]


def test_the_acknowledgement_of_a_listen_reaches_the_client(seen: Any) -> None:
    honoured = {"resourcesListChanged": True, "resourceSubscriptions": [WATCHED]}
    assert seen.get("honoured") == (honoured if seen["revision"] >= "2026" else None)
