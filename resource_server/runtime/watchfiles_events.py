"""Events of watchfiles below a folder, from a stream that is started again when it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Set
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from resource_server.runtime.timing import Timing

if TYPE_CHECKING:
    import watchfiles

FileChanges: TypeAlias = "Set[tuple[watchfiles.Change, str]]"


class WatchfilesEvents:
    """Calls `on_changes` with each batch, and `on_gap` where events may have been missed.

    There is a gap before the first batch, which alone proves that events arrive, and after a
    failure. `folder` is asked for at each start: another one may have taken its place.
    """

    def __init__(
        self,
        folder: Callable[[], str],
        on_changes: Callable[[FileChanges], None],
        on_gap: Callable[[], None],
        timing: Timing,
        *,
        recursive: bool = True,
        on_failure: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._folder = folder
        self._on_changes = on_changes
        self._on_gap = on_gap
        self._timing = timing
        self._recursive = recursive
        self._on_failure = on_failure
        self.are_arriving = False
        """Whether events are passed on now."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Pass on events until the end of the context."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        while True:
            try:
                await self._run_once()
            except (OSError, RuntimeError, ExceptionGroup) as error:
                # Among other causes: a name that is not UTF-8, or a missing folder.
                self._on_failure(error)
            if self.are_arriving:
                self.are_arriving = False
                self._on_gap()
            await asyncio.sleep(self._timing.watchfiles_restart_s)

    async def _run_once(self) -> None:
        # Imported here: rarely needed on Linux.
        import watchfiles

        folder = self._folder()
        identity = _identity(folder)
        stream = watchfiles.awatch(  # pyright: ignore[reportUnknownMemberType]
            folder,
            watch_filter=None,
            step=_milliseconds(self._timing.watchfiles_step_s),
            debounce=_milliseconds(self._timing.watchfiles_debounce_s),
            rust_timeout=_milliseconds(self._timing.watchfiles_pulse_s),
            yield_on_timeout=True,
            recursive=self._recursive,
        )
        async with aclosing(stream):
            async for changes in stream:
                if not self.are_arriving:
                    self.are_arriving = True
                    self._on_gap()
                if changes:
                    self._on_changes(changes)
                if _identity(folder) != identity:
                    return  # watchfiles would keep watching the replaced folder


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = Path(folder).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
