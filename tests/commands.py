"""The command line as a program, perhaps with times that a test needs."""

from __future__ import annotations

import sys

from resource_server.runtime.timing import Timing

_TIMED = """
from resource_server.cli import main
from resource_server.runtime.timing import Timing
{code}
main(timing={timing})
"""


def command(timing: Timing | None = None, code: str = "") -> list[str]:
    """Return what starts the command line; `code` is Python that runs before."""
    if timing is None and not code:
        return [sys.executable, "-m", "resource_server"]
    return [sys.executable, "-c", _TIMED.format(code=code, timing=timing)]
