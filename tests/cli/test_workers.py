from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_more_workers_are_refused_with_the_reason_and_what_to_do_instead(
    folder: Path, run: Run
) -> None:
    for count in ("1", "4", "auto"):
        refused = run("serve", folder, "--http", "127.0.0.1:0", "--workers", count)
        assert refused.status == 2
        assert "a session lives in one process" in refused.err
        assert "run several servers behind a load balancer, as in examples/http" in refused.err


def test_an_access_log_is_one_of_http(folder: Path, run: Run) -> None:
    refused = run("serve", folder, "--access-log")
    assert (refused.status, "these options need --http" in refused.err) == (2, True)
