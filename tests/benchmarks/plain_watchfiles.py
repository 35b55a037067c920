"""A peer: plain watchfiles, which prints the path of each event on a line.

python tests/benchmarks/plain_watchfiles.py FOLDER STEP_MS DEBOUNCE_MS
"""

from __future__ import annotations

import asyncio
import os
import sys

from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]


async def main() -> None:
    """Print until it is killed, or watchfiles fails."""
    folder, step, debounce = sys.argv[1:]
    async for events in awatch(folder, step=int(step), debounce=int(debounce)):
        lines = [os.fsencode(path) + b"\n" for _, path in events]
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())
