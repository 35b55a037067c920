"""The skills contract: directories with a `SKILL.md`, and the ability `SupportsSkills`.

A skill is a directory of instructions for a model (https://agentskills.io). The server serves the
entries of all mounts by `skills/list` and `skills/get` (SEP-2640); the files are ordinary
documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from resource_server.provider.core import MaybeAwaitable, Path

SKILL_FILE = "SKILL.md"
"""Name of the document that makes its collection a skill."""


class SkillFile(msgspec.Struct, frozen=True):
    """A document of a skill. A host refuses content that differs from it."""

    path: Path
    digest: str
    """`sha256:` and 64 hexadecimal digits, of the bytes that a read returns."""
    size: int
    """The number of these bytes."""


class Skill(msgspec.Struct, frozen=True):
    """A skill: the path of its `SKILL.md`, its frontmatter and its documents."""

    path: Path
    frontmatter: Mapping[str, Any]
    """The frontmatter of `SKILL.md` as JSON values; `name` is the name of the collection."""
    files: tuple[SkillFile, ...] | None
    """All documents below the collection, `SKILL.md` included; None if they are generated, so that
    each read may return something else."""


@runtime_checkable
class SupportsSkills(Protocol):
    """Finds the skills among the provider's resources."""

    def list_skills(self, *, after: Path | None, limit: int) -> MaybeAwaitable[Sequence[Skill]]:
        """Return up to `limit` listed skills strictly after the path `after`, in a stable order.

        Fewer than `limit` means the end. Invalid ones are left out: a host may refuse a whole list
        because of one of them.
        """
        ...

    def get_skill(self, path: Path) -> MaybeAwaitable[Skill]:
        """Return the skill of a `SKILL.md`, listed or not.

        Raises:
            ResourceNotFound: no skill is served at this path.
        """
        ...
