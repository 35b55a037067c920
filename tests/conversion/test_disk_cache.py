from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resource_server.conversion.disk_cache import SUFFIX, DiskCache
from resource_server.conversion.pool import Conversion
from resource_server.provider.conversion import Part
from tests.waiting import PATIENCE_S

KEY = ("document", 1)
FOUND = Conversion((Part("# One", 1, 2), Part(b"\x89PNG", 2, 2, "image/png")), is_cut=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "documents"


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_a_conversion_is_found_again_by_another_cache(folder: Path) -> None:
    DiskCache(folder).put(KEY, FOUND)
    assert DiskCache(folder).get(KEY) == FOUND
    assert DiskCache(folder).get(("document", 2)) is None


def test_files_are_for_their_owner_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        DiskCache(folder).put(KEY, FOUND)
    finally:
        os.umask(before)
    (file,) = files(folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_another_process_finds_it(folder: Path) -> None:
    DiskCache(folder).put(KEY, FOUND)
    program = (
        "import sys; from pathlib import Path;"
        "from resource_server.conversion.disk_cache import DiskCache;"
        f"print(len(DiskCache(Path(sys.argv[1])).get({KEY!r}).parts))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "2"


@pytest.mark.parametrize("count", [0, 1, 20, 40])
def test_a_damaged_file_is_not_there(folder: Path, count: int) -> None:
    cache = DiskCache(folder)
    cache.put(KEY, FOUND)
    (file,) = files(folder)
    data = bytearray(file.read_bytes())
    for place in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[place] ^= 1
        file.write_bytes(damaged)
        assert cache.get(KEY) is None
    file.write_bytes(data[:count])
    assert cache.get(KEY) is None
    cache.put(KEY, FOUND)
    assert cache.get(KEY) == FOUND


def test_links_folders_and_fifos_of_its_names_are_not_read(folder: Path, tmp_path: Path) -> None:
    cache = DiskCache(folder)
    cache.put(KEY, FOUND)
    (file,) = files(folder)
    outside = tmp_path / "outside"
    file.rename(outside)
    file.symlink_to(outside)
    assert cache.get(KEY) is None
    file.unlink()
    file.mkdir()
    assert cache.get(KEY) is None
    cache.put(KEY, FOUND)  # is logged, and does no harm
    file.rmdir()
    os.mkfifo(file)
    # To open it would wait for who writes to it.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(cache.get, KEY)
        try:
            assert found.result(PATIENCE_S) is None
        finally:
            os.close(os.open(file, os.O_RDWR))


def test_the_files_used_longest_ago_are_removed_first(folder: Path) -> None:
    size = 10_000
    cache = DiskCache(folder, max_bytes=5 * size)
    for number in range(4):
        cache.put(("document", number), Conversion((Part("x" * size),)))
    foreign = folder / "notes.txt"
    foreign.write_text("mine")
    for number, file in enumerate(files(folder)):
        os.utime(file, (number, number))
    used = next(number for number in range(4) if cache.get(("document", number)))
    for number in range(10, 13):
        cache.put(("document", number), Conversion((Part("x" * size),)))
    total = sum(file.stat().st_size for file in files(folder) if file.name.endswith(SUFFIX))
    assert total <= 5 * size
    assert cache.get(("document", used)) is not None
    assert cache.get(("document", 12)) is not None
    assert foreign.read_text() == "mine"


def test_a_folder_that_others_may_write_to_is_not_used(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    cache = DiskCache(folder)
    with caplog.at_level(logging.WARNING):
        cache.put(KEY, FOUND)
        cache.put(KEY, FOUND)
    assert files(folder) == []
    assert cache.get(KEY) is None
    assert len(caplog.records) == 1
    assert str(folder) not in caplog.text


def test_a_file_in_place_of_the_folder_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    cache = DiskCache(tmp_path / "cache")
    cache.put(KEY, FOUND)
    assert cache.get(KEY) is None


def test_what_is_larger_than_the_cache_is_not_kept(folder: Path) -> None:
    cache = DiskCache(folder, max_bytes=1000)
    cache.put(KEY, Conversion((Part("x" * 2000),)))
    assert not folder.exists() or files(folder) == []
