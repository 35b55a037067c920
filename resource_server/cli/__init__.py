"""The command line: serve, check, list, read, watch, init, install, new-provider and others."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from resource_server.runtime.timing import Timing

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, *, timing: Timing | None = None) -> NoReturn:
    """Run one command and exit with its status."""
    # A start allocates much and frees little: collections take a twelfth of its time.
    gc.set_threshold(200_000)
    # Imported here, so that the threshold holds for the imports, too.
    from resource_server.cli import program
    from resource_server.runtime.timing import DEFAULT_TIMING

    program.main(arguments, timing=timing or DEFAULT_TIMING)
