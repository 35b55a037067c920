"""Starts of workers: what they inherit, and with whom they end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from resource_server.conversion import process
from resource_server.conversion.pool import ConverterPool
from tests.conversion.pools import LINUX, MODULES, PDF, converted
from tests.conversion.portable import pdf
from tests.waiting import PATIENCE_S, block_until

_WORKER = "resource_server.conversion.worker"


@LINUX
def test_a_worker_has_nothing_but_its_socket(tmp_path: Path) -> None:
    with (tmp_path / "open").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        channel, worker = process.start(_WORKER)
        with worker, channel:
            about = Path(f"/proc/{worker.pid}")
            block_until((about / "cmdline").read_bytes)  # empty while the program is loaded
            number = (about / "cmdline").read_bytes().split(b"\0")[-2].decode()
            held: dict[str, str] = {}
            for each in (about / "fd").iterdir():
                with suppress(FileNotFoundError):  # a module that it has just imported
                    held[each.name] = str(each.readlink())
            assert {held[each] for each in "012"} == {"/dev/null"}
            assert [each for each in held if "socket:" in held[each]] == [number]
            assert file.name not in held.values()
            assert (about / "environ").read_bytes() == b""
            assert (about / "cwd").readlink() == Path("/")
            assert os.getsid(worker.pid) == worker.pid
            channel.close()
            assert worker.wait(PATIENCE_S) == 0


@LINUX
def test_a_worker_outlives_the_thread_that_asked_for_it(
    pool: ConverterPool, tmp_path: Path
) -> None:
    thread = threading.Thread(target=converted, args=(pool, tmp_path / "x", pdf("x"), PDF))
    thread.start()
    task = Path(f"/proc/self/task/{thread.native_id}")
    thread.join()
    deadline = time.monotonic() + PATIENCE_S
    while task.exists():
        assert time.monotonic() < deadline
    before = pool.processes
    assert len(before) == 1
    converted(pool, tmp_path / "x", pdf("x"))
    assert pool.processes == before


_SERVER = """
import os, sys
from resource_server.conversion.pool import ConverterPool
from resource_server.provider.conversion import ConversionRequest
pool = ConverterPool(modules=[sys.argv[1]])
pool.convert("hostile_converters:convert", 0, ConversionRequest(media_type="x"))
"""


@LINUX
def test_a_worker_ends_with_its_server_even_if_it_hangs(tmp_path: Path) -> None:
    document = tmp_path / "x"
    document.write_text("hang")
    command = [sys.executable, "-c", _SERVER, MODULES]
    with document.open() as file, subprocess.Popen(command, stdin=file) as server:
        tasks = Path(f"/proc/{server.pid}/task")
        deadline = time.monotonic() + PATIENCE_S
        while not (workers := [child for child in _children(tasks) if _is_hanging(child)]):
            assert server.poll() is None
            assert time.monotonic() < deadline
        server.kill()
    (worker,) = workers
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline


def _children(tasks: Path) -> list[str]:
    return [child for file in tasks.glob("*/children") for child in file.read_text().split()]


def _is_hanging(process: str) -> bool:
    return Path(f"/proc/{process}/comm").read_text() == "hanging\n"
