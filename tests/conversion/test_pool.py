"""Pools of workers that convert documents, some of them hostile."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError, ConversionTooSlow, ResourceBusy
from resource_server.provider.conversion import ConversionRequest
from tests.conversion.pools import HOSTILE, LINUX, MODULES, converted
from tests.conversion.portable import pdf


def test_a_document_is_converted_part_by_part(pool: ConverterPool, tmp_path: Path) -> None:
    data = pdf("Report 2026", "", "The margin is 17 %")
    first, second, third = converted(pool, tmp_path / "x", data)
    assert first == "## Page 1\n\nReport 2026\n\n- <https://example.com/1>\n"
    assert "This page is a picture" in second
    assert "The margin is 17 %" in third
    assert converted(pool, tmp_path / "x", data, first=3) == [third]
    assert converted(pool, tmp_path / "x", data, first=9) == []


def test_a_worker_is_used_again_and_ends_with_its_pool(pool: ConverterPool, tmp_path: Path) -> None:
    converted(pool, tmp_path / "x", pdf("x"))
    (process,) = pool.processes
    for _ in range(3):
        converted(pool, tmp_path / "x", pdf("x"))
        assert pool.processes == [process]
    pool.close()
    assert pool.processes == []
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(ResourceBusy):
        converted(pool, tmp_path / "x", pdf("x"))


@pytest.mark.guarantee("converters-are-confined")
@LINUX
@pytest.mark.parametrize("deed", ["drown", "name"])
def test_a_worker_that_floods_the_server_is_ended(
    deed: str, pool: ConverterPool, tmp_path: Path
) -> None:
    with pytest.raises(ConversionError, match="the converter failed"):
        converted(pool, tmp_path / "x", deed.encode(), HOSTILE)
    assert pool.processes == []


def test_parts_that_come_soon_after_each_other_do_not_extend_the_time(tmp_path: Path) -> None:
    pool = ConverterPool(workers=1, modules=[MODULES])
    (tmp_path / "x").write_text("drip")
    request = ConversionRequest(media_type="application/pdf")
    try:
        with (tmp_path / "x").open("rb") as file:
            found = pool.convert(HOSTILE, file.fileno(), request)
            assert len(found.parts) == 10_000
            file.seek(0)
            with pytest.raises(ConversionTooSlow):
                pool.convert(HOSTILE, file.fileno(), request, time_s=0.0)
    finally:
        pool.close()


def test_the_words_of_a_converter_are_one_short_line(pool: ConverterPool, tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as raised:
        converted(pool, tmp_path / "x", b"talk", HOSTILE)
    said = str(raised.value)
    assert said.startswith("this document cannot be converted: no [31mwords words ")
    assert said.endswith("…")
    assert said.isprintable()
    assert len(said) < 400


def test_a_worker_that_was_killed_between_two_documents_is_replaced(
    pool: ConverterPool, tmp_path: Path
) -> None:
    converted(pool, tmp_path / "x", pdf("x"))
    (process,) = pool.processes
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert len(converted(pool, tmp_path / "x", pdf("x"))) == 1
    assert pool.counts.workers == 1
    assert pool.processes != [process]


def test_many_documents_are_converted_at_once_by_two_workers(
    pool: ConverterPool, tmp_path: Path
) -> None:
    found: list[str] = []

    def one(number: int) -> None:
        found.extend(converted(pool, tmp_path / str(number), pdf(f"number {number}")))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(part.split("\n")[2] for part in found) == sorted(
        f"number {number}" for number in range(40)
    )
    assert len(pool.processes) <= 2


def test_documents_and_workers_are_counted(tmp_path: Path) -> None:
    pool = ConverterPool(workers=1, time_s=2, modules=[MODULES])
    try:
        converted(pool, tmp_path / "x", pdf("x"))
        assert pool.counts.workers == 1
        with pytest.raises(ConversionError):
            converted(pool, tmp_path / "x", b"no PDF")
        outcomes: list[Exception] = []

        def loop(name: str) -> None:
            try:
                converted(pool, tmp_path / name, b"loop", HOSTILE)
            except (ConversionError, ResourceBusy) as error:
                outcomes.append(error)

        threads = [threading.Thread(target=loop, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 2
        while pool.counts.waiting == 0 and time.monotonic() < deadline:
            threads[0].join(0.01)
        assert pool.counts.waiting == 1
        for thread in threads:
            thread.join()
        counts = pool.counts
        assert counts.converted == 1
        assert counts.failed + counts.refused == 3
        assert len(outcomes) == 2
        assert counts.waiting == 0
        assert counts.seconds > 2
    finally:
        pool.close()
    assert pool.counts.workers == 0
