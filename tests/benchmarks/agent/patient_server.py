"""This server with time for every search, so that a busy machine changes no answer."""

from __future__ import annotations

from resource_server.cli import main
from resource_server.runtime.timing import Timing

if __name__ == "__main__":
    main(timing=Timing(search_s=15.0))
