"""A process that has hardly any file descriptors left."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def few_descriptors(spare: int) -> Generator[None]:
    """Allow the process only so many descriptors more than it has."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The listing itself took one, which is free again.
    taken = {int(fd.name) for fd in [*Path("/proc/self/fd").iterdir()] if fd.exists()}
    free = [number for number in range(spare + 1 + len(taken)) if number not in taken]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
