"""Skills of all mounts: the pages of their list, and single ones by URI."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from resource_server import uris
from resource_server.catalog import cursor
from resource_server.catalog.cursor import ListCursor
from resource_server.catalog.mount import Mount, log_failure
from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.provider import Path
from resource_server.provider.skills import SKILL_FILE, Skill
from resource_server.runtime.eager import TimeLimit, within

_SCOPE = "skills"
_AT_A_TIME = 8
"""Skills requested from a provider at a time: each may have 512 files to digest."""
_MAX_FILES = 2048
"""A page ends after this many files, about 400 KB."""


class SkillEntry(msgspec.Struct, frozen=True):
    """A skill and the mount that it is in."""

    mount: Mount
    skill: Skill


class SkillPage(msgspec.Struct, frozen=True):
    """A page of skills; `next_cursor` is None on the last one.

    `unavailable` names the mounts that are missing from it because they cannot serve now.
    """

    entries: Sequence[SkillEntry]
    next_cursor: str | None
    unavailable: tuple[str, ...] = ()


async def list_skills(
    mounts: Sequence[Mount], after: str | None, *, size: int, timeout_s: float
) -> SkillPage:
    """Return a page of the skills of all listed mounts, in manifest order.

    A mount that fails or takes longer than `timeout_s` is left out. `mounts` are all that the
    caller sees.

    Raises:
        InvalidParameter: `after` is no cursor of this list.
    """
    listed = [each for each in mounts if each.listed and "skills" in each.provider.abilities]
    last: Path | None = None
    if after is not None:
        held = ListCursor.decode(after, scope=_SCOPE)
        names = [mount.name for mount in listed]
        if held.mount not in names:
            raise InvalidParameter(cursor.INVALID)
        listed, last = listed[names.index(held.mount) :], held.path
    entries: list[SkillEntry] = []
    unavailable: list[str] = []
    for mount in listed:
        before = len(entries)
        try:
            page = _FilledPage(mounts, mount, entries, size)
            await within(timeout_s, page.fill(last, TimeLimit(timeout_s / 2)))
        except Exception as error:
            # A mount that fails or hangs must not break the list of the others.
            log_failure(error, f"listing the skills of mount {mount.name} failed")
            unavailable.append(mount.name)
            del entries[before:]
        else:
            if page.stopped_at is not None:
                name, path = page.stopped_at
                following = ListCursor(_SCOPE, name, path).encode()
                return SkillPage(entries, following, tuple(unavailable))
        last = None
    return SkillPage(entries, None, tuple(unavailable))


async def get_skill(mounts: Sequence[Mount], mount: Mount, path: Path) -> SkillEntry:
    """Return the skill of a `SKILL.md`.

    Raises:
        ResourceNotFound: no skill is served there.
    """
    if "skills" not in mount.provider.abilities or path[-1:] != (SKILL_FILE,):
        raise ResourceNotFound
    if _is_overlaid(mounts, mount, path):
        raise ResourceNotFound
    return SkillEntry(mount, await mount.provider.get_skill(path))


class _FilledPage:
    """A page that is filled with the skills of one mount after another."""

    def __init__(
        self, mounts: Sequence[Mount], mount: Mount, entries: list[SkillEntry], size: int
    ) -> None:
        self._mounts = mounts
        self._mount = mount
        self._entries = entries
        self._room = size - len(entries)
        self._files = _MAX_FILES - sum(len(each.skill.files or ()) for each in entries)
        self.stopped_at: tuple[str, Path] | None = None
        """The mount and path after which the next page begins, if this one is full."""

    async def fill(self, last: Path | None, time: TimeLimit) -> None:
        """Add the skills after `last` until the page is full or half of the time is over."""
        await self._mount.start()
        while True:
            found = await self._mount.provider.list_skills(after=last, limit=_AT_A_TIME)
            for skill in found:
                if self._is_full and last is None:
                    before = self._entries[-1]
                    self.stopped_at = before.mount.name, before.skill.path
                    return
                if last is not None and (self._is_full or time.left_s() <= 0):
                    self.stopped_at = self._mount.name, last
                    return
                last = skill.path
                if not _is_overlaid(self._mounts, self._mount, last):
                    self._entries.append(SkillEntry(self._mount, skill))
                    self._room -= 1
                    self._files -= len(skill.files or ())
            if len(found) < _AT_A_TIME:
                return

    @property
    def _is_full(self) -> bool:
        return self._room <= 0 or self._files <= 0


def _is_overlaid(mounts: Sequence[Mount], mount: Mount, path: Path) -> bool:
    """Return whether the URIs of some files of a skill lead to a mount inside this one."""
    base = uris.parse(mount.base)
    top = (*base.path, *path[:-1])
    for other in mounts:
        inner = uris.parse(other.base)
        if (inner.scheme, inner.authority) != (base.scheme, base.authority):
            continue
        if len(inner.path) > len(base.path) and inner.path[: len(top)] == top[: len(inner.path)]:
            return True
    return False
