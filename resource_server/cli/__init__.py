"""The command line: serve, check, list, read, watch, init, install, new-provider and others."""

import gc
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its status."""
    # A start allocates much and frees little: collections would take a twelfth of it.
    gc.set_threshold(200_000)
    # Imported here: after that.
    from resource_server.cli import program

    program.main(arguments)
