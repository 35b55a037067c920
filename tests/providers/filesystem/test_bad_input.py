"""Input that a folder meets sooner or later, and that no list of hostile names has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest

from resource_server.providers.filesystem import Filesystem
from resource_server.runtime.eager import settle

pytestmark = pytest.mark.anyio


@pytest.fixture
def process() -> Iterator[int]:
    """The id of a process that has just begun."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate(b"\n")


@pytest.mark.skipif(not FilePath("/proc/self/net").exists(), reason="needs /proc")
async def test_a_collection_outside_the_kernel_cache_is_fetched(process: int) -> None:
    # What a process has just got in /proc is in no cache until somebody looks it up.
    path = (str(process), "net")
    found, contents = await settle(Filesystem(path=FilePath("/proc")).fetch(path, {}))
    assert (found.path, found.type, contents) == (path, "collection", ())
