from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from resource_server.audit.entry import AuditEvent
from resource_server.audit.recorder import MAX_RECENT, MAX_WAITING, Recorder, StandardError
from tests.audit.records import SOON, entry, events, lines, recorder_of, verdict
from tests.waiting import block_until

_SMALL_DISK = """
import resource, sys
from pathlib import Path
from tests.audit.records import entry, recorder_of
from tests.waiting import block_until
path, limit, refuses = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "refuse"
recorder = recorder_of(path, refuses=refuses)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
number = 0
while recorder.problem is None:
    recorder.record(entry(number))
    number += 1
print(recorder.refusal)
taken = 10_000
for _ in range(taken):
    recorder.record(entry(number))
    number += 1
print(recorder.counts.failing, recorder.counts.dropped)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
block_until(lambda: recorder.problem is None)
recorder.record(entry(number))
recorder.close()
print(number + 1, recorder.counts.dropped, recorder.refusal)
"""


def _run(code: str, *arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


@pytest.mark.guarantee("reads-are-recorded")
def test_a_full_disk_drops_lines_and_the_record_says_how_many(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    refusal, while_full, after = _run(_SMALL_DISK, path, 20_000, "drop")
    assert refusal == "None"
    failing, dropped = map(int, while_full.split())
    assert failing == 1
    assert dropped >= 10_000 - MAX_WAITING
    total, dropped, _ = after.split()
    assert "dropped" in events(path)
    told = sum(each["lines"] for each in lines(path) if each.get("event") == "dropped")
    assert told == int(dropped)
    written = sum("uri" in each for each in lines(path))
    assert written + told == int(total)
    found = verdict(path)
    assert found.problem is None
    assert any("requests have no line" in note and "file too large" in note for note in found.notes)


@pytest.mark.guarantee("reads-are-recorded")
def test_a_full_disk_refuses_requests_if_the_manifest_says_so(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    refusal, _, after = _run(_SMALL_DISK, path, 20_000, "refuse")
    assert refusal == (
        "the record of reads cannot be written (file too large), and none goes without"
    )
    assert after.split()[2] == "None"


class _Stuck:
    """A place that takes no line until it is released."""

    problem = None

    def __init__(self) -> None:
        self.released = threading.Event()
        self.released.set()
        self.data = b""

    def look(self) -> AuditEvent | None:
        return None

    def write(self, lines: bytes) -> None:
        self.released.wait()
        self.data += lines

    def close(self) -> None:
        pass


@pytest.mark.guarantee("reads-are-recorded")
def test_a_queue_that_overflows_never_blocks_and_is_told() -> None:
    place = _Stuck()
    recorder = Recorder(place, timing=SOON)
    place.released.clear()
    for number in range(MAX_WAITING + 500):
        recorder.record(entry(number))
    assert 0 < recorder.counts.dropped <= 500
    place.released.set()
    block_until(lambda: b'"dropped"' in place.data)
    recorder.close()
    assert b"more requests than could be written" in place.data
    assert place.data.count(b'"uri"') + recorder.counts.dropped == MAX_WAITING + 500


def test_requests_are_refused_before_the_queue_is_full() -> None:
    place = _Stuck()
    recorder = Recorder(place, refuses=True, timing=SOON)
    place.released.clear()
    assert recorder.refusal is None
    for number in range(MAX_WAITING - 1):
        recorder.record(entry(number))
    assert recorder.refusal == "the record of reads is behind"
    assert recorder.counts.dropped == 0
    place.released.set()
    block_until(lambda: recorder.refusal is None)
    recorder.close()


@pytest.mark.guarantee("reads-are-recorded")
def test_a_process_that_is_killed_leaves_a_record_that_the_next_one_continues(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.audit.records import entry, recorder_of\n"
        "recorder = recorder_of(Path(sys.argv[1]))\nprint(flush=True)\nnumber = 0\n"
        "while True:\n    recorder.record(entry(number))\n    number += 1\n"
    )
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            size = path.stat().st_size
            block_until(lambda size=size: path.stat().st_size > size + 100_000)
            process.send_signal(signal.SIGKILL)
    recorder_of(path).close()
    assert verdict(path).problem is None
    assert events(path).count("started") == 4
    assert events(path).count("ended") == 1


def test_lines_are_written_in_order_by_one_thread(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    before = threading.active_count()
    recorder = recorder_of(path)
    assert threading.active_count() == before
    for number in range(1000):
        recorder.record(entry(number))
    recorder.close()
    uris = [each["uri"] for each in lines(path) if "uri" in each]
    assert uris == [f"file:///docs/{number}" for number in range(1000)]
    assert recorder.counts.written == 1001


def test_the_last_requests_are_kept_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    recorder = recorder_of(path)
    for number in range(MAX_RECENT + 5):
        recorder.record(entry(number))
    recorder.close()
    again = recorder_of(path)
    assert len(again.recent) >= MAX_RECENT - 2  # the last lines have events among them
    assert again.recent[-1][1].uri == f"file:///docs/{MAX_RECENT + 4}"
    again.record(entry(0), is_shown=False)
    assert again.recent[-1][1].uri == f"file:///docs/{MAX_RECENT + 4}"
    again.close()


def test_a_record_that_cannot_begin_is_an_error() -> None:
    class Full(_Stuck):
        def write(self, lines: bytes) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        Recorder(Full(), timing=SOON)


def test_standard_error_takes_lines(capfd: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(StandardError(), timing=SOON)
    recorder.record(entry(1))
    recorder.close()
    first, second, third = capfd.readouterr().err.splitlines()
    assert '"started"' in first
    assert '"uri":"file:///docs/1"' in second
    assert '"ended"' in third


def test_a_blocked_standard_error_does_not_keep_the_process() -> None:
    code = (
        "import logging\nfrom tests.audit.records import SOON, entry\n"
        "from resource_server.audit.recorder import Recorder, StandardError\n"
        "logging.disable()  # which blocks, too; that of the server does not\n"
        "recorder = Recorder(StandardError(), timing=SOON)\n"
        "for number in range(5000): recorder.record(entry(number))\n"
        "recorder.close()\nprint('ended')\n"
    )
    reader, writer = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=writer, timeout=60, check=True
    )
    os.close(reader)
    os.close(writer)
    assert done.stdout == b"ended\n"
