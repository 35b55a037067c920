"""The start page: what is served, its health and warnings, and how to connect a host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from weakref import WeakKeyDictionary

from starlette.responses import Response

from resource_server.catalog.mount import Mount, log_failure
from resource_server.errors import ResourceBusy
from resource_server.explorer.page import Page
from resource_server.protocol.revisions import LATEST_MODERN
from resource_server.protocol.tools.registry import tool_cost

_WAIT_S = 1.0
"""How long a page waits for warnings; the next one may have them."""
_KEPT_S = 60.0
_MAX_WARNINGS = 50
"""Warnings of a page, at most; `check` has all."""


async def show_start(page: Page, surveys: Surveys) -> Response:
    """Return the page of the server, with the mounts that the caller sees.

    Operators see on it what `check` warns of, too.
    """
    mounts = page.server.catalog.visibility.current().mounts
    listed = [each for each in mounts if each.listed]
    warnings: list[str] = []
    if page.visit.is_operator:
        warnings += await surveys.warnings([each.origin for each in mounts])
        warnings += (await tool_cost(page.server.toolbox, LATEST_MODERN)).warnings
    return page.render(
        "start.html",
        mounts=listed,
        warnings=warnings[:_MAX_WARNINGS],
        more=len(warnings) - _MAX_WARNINGS,
        endpoint=page.visit.endpoint,
    )


class Surveys:
    """Mistakes and warnings of mounts, looked for in one task each, at most once a minute."""

    def __init__(self) -> None:
        self._begun = WeakKeyDictionary[Mount, tuple[float, asyncio.Task[Sequence[str]]]]()

    async def warnings(self, mounts: Sequence[Mount]) -> Sequence[str]:
        """Return what is known of these mounts within a second."""
        tasks = {mount.name: self._task(mount) for mount in mounts}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=_WAIT_S)
        unknown = ("still being looked at; open this page again",)
        return [
            f"{name}: {warning}"
            for name, task in tasks.items()
            for warning in (task.result() if task.done() else unknown)
        ]

    def _task(self, mount: Mount) -> asyncio.Task[Sequence[str]]:
        begun = self._begun.get(mount)
        if begun is None or (begun[1].done() and monotonic() > begun[0] + _KEPT_S):
            begun = self._begun[mount] = monotonic(), asyncio.create_task(_warnings(mount))
        return begun[1]

    def close(self) -> None:
        """Cancel what is still looking."""
        for _, task in self._begun.values():
            task.cancel()


async def _warnings(mount: Mount) -> Sequence[str]:
    try:
        await mount.start()
        if "check" not in mount.provider.abilities:
            return ()
        found = await mount.provider.warnings(thorough=True)
    except ResourceBusy:
        return (mount.problem or "unavailable",)
    except Exception as error:  # the code of a plugin
        log_failure(error, f"asking mount {mount.name} for warnings")
        return ("its warnings cannot be determined",)
    return [f"{option}: {text}" if option else text for option, text in found]
