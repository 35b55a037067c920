"""Documents that are converted in workers, and what a hostile one can do there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from resource_server.conversion.messages import MAX_PARTS
from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError, ResourceBusy
from resource_server.provider.conversion import ConversionRequest
from tests.conversion.portable import pdf
from tests.waiting import PATIENCE_S

PDF = "resource_server.conversion.formats.pdf:convert"
HOSTILE = "hostile_converters:convert"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux confines workers")


@pytest.fixture
def pool() -> Generator[ConverterPool]:
    pool = ConverterPool(workers=2, time_s=4, modules=[str(Path(__file__).parent)])
    yield pool
    pool.close()


def converted(
    pool: ConverterPool, path: Path, data: bytes, reference: str = PDF, first: int = 1
) -> list[str]:
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        request = ConversionRequest(media_type="application/pdf", first=first)
        return [str(part.data) for part in pool.convert(reference, fd, request).parts]
    finally:
        os.close(fd)


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
@pytest.mark.parametrize(
    "deed",
    [
        *(
            "connect",
            "drown",
            "earlier",
            "eat",
            "exit",
            "fork",
            "kill",
            "limit",
            "loop",
            "name",
            "own",
        ),
        *("queue", "read", "run", "secrets", "share", "slow down", "write"),
    ],
)
def test_a_converter_can_do_nothing_but_convert(
    deed: str, pool: ConverterPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    begin = time.monotonic()
    with pytest.raises(ConversionError):
        converted(pool, tmp_path / "x", deed.encode(), HOSTILE)
    assert time.monotonic() - begin < 30
    assert pool.protections(HOSTILE) == ("landlock", "seccomp")
    assert not Path("/tmp/written-by-a-converter").exists()  # noqa: S108
    assert converted(pool, tmp_path / "x", b"fine", HOSTILE) == ["fine"]


@pytest.mark.guarantee("converters-are-confined")
@LINUX
@pytest.mark.parametrize(
    "change",
    ["attribute", "date", "empty", "give", "link", "move", "open", "permit", "remove"],
)
def test_a_converter_changes_no_file(
    change: str, pool: ConverterPool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    other.write_text("text")
    before = other.stat()
    with pytest.raises(ConversionError, match="for a reason that the server's log has"):
        converted(pool, tmp_path / "x", f"{change}\n{other}".encode(), HOSTILE)
    assert "PermissionError" in caplog.text
    after = other.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
    assert other.read_text() == "text"


@pytest.mark.guarantee("converters-are-confined")
@LINUX
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to lose")
def test_a_converter_has_no_rights_of_root_but_to_read(pool: ConverterPool, tmp_path: Path) -> None:
    converted(pool, tmp_path / "x", b"fine", HOSTILE)
    (process,) = pool.processes
    status = Path(f"/proc/{process}/status").read_text()
    rights = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Cap"))
    assert {int(rights[name], 16) & ~(1 << 2) for name in ("CapInh", "CapPrm", "CapEff")} == {0}


@pytest.mark.guarantee("converters-are-confined")
@LINUX
@pytest.mark.parametrize("deed", ["drown", "name"])
def test_a_worker_that_floods_the_server_is_ended(
    deed: str, pool: ConverterPool, tmp_path: Path
) -> None:
    with pytest.raises(ConversionError, match="the converter failed"):
        converted(pool, tmp_path / "x", deed.encode(), HOSTILE)
    assert pool.processes == []


def test_the_pictures_that_fit_are_kept(pool: ConverterPool, tmp_path: Path) -> None:
    assert len(converted(pool, tmp_path / "x", b"show", HOSTILE)) == 1


def test_parts_without_end_are_cut(tmp_path: Path) -> None:
    patient = ConverterPool(modules=[str(Path(__file__).parent)])
    try:
        found = converted(patient, tmp_path / "x", b"nothing", HOSTILE)
    finally:
        patient.close()
    assert found == [""] * MAX_PARTS


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
    command = [sys.executable, "-c", _SERVER, str(Path(__file__).parent)]
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


@pytest.mark.guarantee("converters-are-confined")
def test_damaged_documents_fail_alone(pool: ConverterPool, tmp_path: Path) -> None:
    whole = pdf("one", "two")
    for size in range(0, len(whole), 97):
        with suppress(ConversionError):
            found = converted(pool, tmp_path / "x", whole[:size])
            assert all(part.startswith("## Page") for part in found)
    assert len(converted(pool, tmp_path / "x", whole)) == 2


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
    pool = ConverterPool(workers=1, time_s=2, modules=[str(Path(__file__).parent)])
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
