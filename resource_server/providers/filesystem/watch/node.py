"""What a watch remembers of one directory: enough to see whether it holds something else."""

from __future__ import annotations

import msgspec

from resource_server.providers.filesystem.directory import Stamp


class Node(msgspec.Struct, eq=False, gc=False):
    """One directory as last looked at."""

    digest: int
    """Of the exposed names, and of which are directories."""
    rules: int
    """Of what its ignore files say, and those above."""
    own_rules: int | None
    """Of what its ignore files say; None where there are none."""
    stamp: Stamp | None
    """None where it may have changed without a trace."""
    directories: frozenset[str]
