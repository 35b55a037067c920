"""Replays every host and writes docs/hosts.md: `python -m tests.hosts`."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

from tests import reference
from tests.hosts.page import PAGE, SECTION, table
from tests.hosts.replays import HOSTS, replayed


def main() -> int:
    """Return the exit status: 1 if something did not hold, and nothing was written."""
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(2) as threads:
        hosts = list(threads.map(replayed, HOSTS, repeat(Path(place))))
    failed = [
        f"{host['name']}, {run['source']}, {run['transport']}: {check}"
        for host in hosts
        for run in host["runs"]
        for check in run["checks"]
        if not check["held"]
    ]
    if failed:
        print(*failed, sep="\n", file=sys.stderr)  # noqa: T201 - a command's output
        return 1
    reference.write(SECTION, PAGE, table(hosts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
