from __future__ import annotations

from pathlib import Path

from resource_server.runtime.clock import TICK_NS, now_ns


def test_a_file_changed_now_is_never_older_than_the_clock(tmp_path: Path) -> None:
    for number in range(50):
        before = now_ns()
        (tmp_path / str(number)).touch()
        assert before <= (tmp_path / str(number)).stat().st_mtime_ns
        assert now_ns() > before - TICK_NS
