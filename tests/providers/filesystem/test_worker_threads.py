from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from resource_server.documents.worker_threads import WorkerThreads
from resource_server.errors import DeadlineExceeded
from resource_server.provider import (
    Content,
)
from resource_server.providers.filesystem import Filesystem, content
from resource_server.runtime.eager import settle
from tests.waiting import PATIENCE_S, pause

pytestmark = pytest.mark.anyio


async def test_a_hanging_folder_takes_a_limited_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gone", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "large.txt").write_bytes(b"x" * 600_000)  # is read in a thread
    gone, there = Filesystem(tmp_path / "gone"), Filesystem(tmp_path / "there")
    answers, waiting, read = threading.Event(), threading.Semaphore(0), content.read_content
    inode = (tmp_path / "gone/large.txt").stat().st_ino

    def hangs(fd: int, *args: Any, **options: Any) -> Content:
        if os.fstat(fd).st_ino == inode:
            waiting.release()
            answers.wait(2 * PATIENCE_S)
        return read(fd, *args, **options)

    async def reading(folder: Filesystem) -> int:
        async with asyncio.timeout(PATIENCE_S):
            (found,) = await settle(folder.read(("large.txt",), {}))
        return len(found.data)

    # Patched: no real disk hangs on demand.
    monkeypatch.setattr(content, "read_content", hangs)
    try:
        for _ in range(3):
            reads = [asyncio.ensure_future(reading(gone)) for _ in range(60)]
            await pause(0.2)
            # A cancelled read keeps its thread, which nothing can end.
            for each in reads:
                each.cancel()
            await asyncio.wait(reads)
        assert await reading(there) == 600_000
        hanging = 0
        while waiting.acquire(blocking=False):
            hanging += 1
        assert 1 < hanging <= 32
    finally:
        answers.set()
    assert await reading(gone) == 600_000


def test_the_first_thread_of_a_process_needs_no_slow_import(tmp_path: Path) -> None:
    script = """
import asyncio, sys
from resource_server.documents.worker_threads import WorkerThreads
assert asyncio.run(WorkerThreads(1).run(lambda: 42)) == 42
assert "anyio" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


async def test_closed_threads_end_when_idle_and_begin_again_on_the_next_call() -> None:
    threads = WorkerThreads(2)
    first = await threads.run(threading.current_thread)
    threads.close()
    first.join(20)
    assert not first.is_alive()
    assert await threads.run(threading.current_thread) is not first
    threads.close()


async def test_a_call_gives_up_when_no_thread_gets_free_in_time() -> None:
    threads, release = WorkerThreads(1), threading.Event()
    holder = asyncio.ensure_future(threads.run(release.wait))
    try:
        await asyncio.sleep(0)
        with pytest.raises(DeadlineExceeded):
            await threads.run(lambda: None, timeout_s=0.01)
    finally:
        release.set()
    assert await holder
    threads.close()
