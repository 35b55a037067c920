"""Converts documents with markitdown: a round for each line of input, after a warm-up.

Prints the seconds of a round, without the documents of the warm-up, and its memory in megabytes.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from markitdown import MarkItDown  # pyright: ignore[reportMissingImports, reportUnknownVariableType]


def main() -> None:
    """Convert what is named."""
    converter = MarkItDown()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportMissingImports]
    paths = sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_file())
    first = {path.suffix: path for path in reversed(paths)}
    for path in first.values():
        converter.convert(path)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportMissingImports]
    for _ in sys.stdin:
        begin = time.perf_counter()
        for path in paths:
            converter.convert(path)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportMissingImports]
        elapsed = time.perf_counter() - begin
        status = Path("/proc/self/status").read_text("ascii")
        resident = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        print(elapsed, int(resident[1]) / 1024 if resident else 0, flush=True)


if __name__ == "__main__":
    main()
