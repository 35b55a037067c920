"""A provider whose documents wait until the test opens them.

Reading `gate/NAME` waits until `open/NAME` is read; `state/NAME` says what became of its readers.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from resource_server.provider import Content, Path, Provider, Resource, Template
from tests.providers_for_tests import SlowTree
from tests.waiting import pause

LARGE = 6_000_000
_MANY = {str(number): f"text {number}" for number in range(5)}


@dataclass
class Gates:
    """See above. `many` is a collection that is read with progress, `large` is long."""

    templates = (Template("{+path}", name="gate"),)
    _open: defaultdict[str, asyncio.Event] = field(
        default_factory=lambda: defaultdict(asyncio.Event), init=False
    )
    _states: Counter[str] = field(default_factory=Counter[str], init=False)

    async def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        """Return the children of `many`."""
        if parent != ("many",):
            return []
        return [
            Resource(path=("many", *each.path), name=each.name, type="document", size=each.size)
            for each in await SlowTree(_MANY).list((), after=after and after[1:], limit=limit)
        ]

    async def metadata(self, path: Path) -> Resource:
        """Describe anything."""
        collection = path in ((), ("many",))
        name = path[-1] if path else "gates"
        return Resource(path=path, name=name, type="collection" if collection else "document")

    async def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        """Read one, in time."""
        match path:
            case ("gate", name):
                return [Content(await self._wait(name))]
            case ("open", name):
                self._open[name].set()
            case ("state", name):
                states = ("waiting", "read", "cancelled")
                return [Content(" ".join(f"{self._states[f'{s} {name}']} {s}" for s in states))]
            case ("large",):
                await asyncio.sleep(0)
                return [Content("x" * LARGE)]
            case ("many", number):
                await pause(0.02)
                return [Content(_MANY[number])]
            case _:
                pass
        return [Content("small")]

    async def _wait(self, name: str) -> str:
        self._states[f"waiting {name}"] += 1
        try:
            await self._open[name].wait()
        except asyncio.CancelledError:
            self._states[f"cancelled {name}"] += 1
            raise
        finally:
            self._states[f"waiting {name}"] -= 1
        self._states[f"read {name}"] += 1
        return f"{name} at last"


_: type[Provider] = Gates
