"""A process that watches a folder, to be stopped or starved."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.listeners import Folder
from tests.waiting import PATIENCE_S

_SCRIPT = Path(__file__).with_name("teller.py")


class Teller:
    """A process that watches a folder; what it tells."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[str] = []
        self.warnings = ""

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def subscribe(self, path: str) -> None:
        """Let it subscribe to one more path, and wait until all is watched."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n".encode())
        await self.of("<subscribed>")
        await self.quiet()

    async def of(self, *some: str) -> None:
        """Wait until these have been told."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while not set(some) <= set(self.told):
                line = await self.process.stdout.readline()
                assert line, f"it ended, and told only {self.told[-20:]}"
                self.told.append(json.loads(line))

    async def quiet(self, seconds: float = 0.3) -> list[str]:
        """Return what was told until nothing is told for a while, and forget it."""
        assert self.process.stdout is not None
        try:
            while True:
                async with asyncio.timeout(seconds):
                    self.told.append(json.loads(await self.process.stdout.readline()))
        except TimeoutError:
            told, self.told = self.told, []
        return told

    async def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.close()
        self.warnings = (await self.process.stderr.read()).decode()
        await self.process.wait()


@asynccontextmanager
async def teller(
    folder: Folder,
    *paths: str,
    follows_list: bool = True,
    limits: Mapping[str, int] | None = None,
    times: Mapping[str, float] | None = None,
) -> AsyncGenerator[Teller]:
    options = {
        "root": str(folder.root),
        "paths": paths,
        "follows_list": follows_list,
        "limits": limits or {},
        "times": times or {},
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_SCRIPT),
        json.dumps(options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    teller = Teller(process)
    try:
        assert process.stdout is not None
        first = json.loads(await process.stdout.readline())
        if first.startswith("<not permitted"):
            pytest.skip(f"limits cannot be lowered here: {first}")
        assert first == "<ready>"
        yield teller
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            await teller.end()
