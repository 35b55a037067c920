"""An application that writes a table of orders: a process of its own, one commit at a time.

    python -m tests.benchmarks.committer URL [STATEMENT…]

The statements come first. Then each line `KEY TOTAL PAUSE_MS` is a commit, with a pause after it;
an empty line is answered by another, once all before it are committed.
"""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

from tests.benchmarks.client import ROOT
from tests.providers.database.owners import owner_of

_STOP_TIMEOUT_S = 10
_FINISH_TIMEOUT_S = 60


class Committer:
    """That process."""

    def __init__(self, url: str, *statements: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.committer", url, *statements],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=ROOT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.ask()
        assert self.has_answered(_FINISH_TIMEOUT_S), "the database cannot be written"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()

    def commit(self, key: int, total: float, pause_ms: float = 0) -> None:
        """Have it commit this total of an order; does not wait for that."""
        self._stdin.write(b"%d %f %f\n" % (key, total, pause_ms))

    def ask(self) -> None:
        """Have it answer when all that it was given is committed."""
        self._stdin.write(b"\n")

    def has_answered(self, within: float) -> bool:
        """Tell whether it has, in so many seconds."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if not poll.poll(within * 1_000):
            return False
        assert self._stdout.read(1) == b"\n", "the process that writes has gone"
        return True


async def main() -> None:
    """Commit until the input ends."""
    url, *statements = sys.argv[1:]
    async with owner_of(url) as owner:
        await owner.run(*statements)
        for line in sys.stdin:
            if line == "\n":
                print(flush=True)
                continue
            key, total, pause_ms = line.split()
            await owner.rows("UPDATE orders SET total = ? WHERE id = ?", float(total), int(key))
            if float(pause_ms):
                time.sleep(float(pause_ms) / 1_000)  # noqa: ASYNC251 - nothing else is done here


if __name__ == "__main__":
    asyncio.run(main())
