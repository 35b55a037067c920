from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server.errors import ResourceNotFound
from resource_server.provider import Path, Skill, SkillFile
from resource_server.testing import ProviderViolations, check_provider
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Skilled(Tree):
    """A tree with three skills, the last one generated."""

    def __init__(self) -> None:
        body = {"SKILL.md": "text", "inner": {"x": "grün"}}
        super().__init__({"a": dict(body), "b": dict(body), "c": {"SKILL.md": "text"}})

    def make(self, name: str) -> Skill:
        path = (name, "SKILL.md")
        files = (
            SkillFile(path, digest(b"text"), 4),
            SkillFile((name, "inner", "x"), digest("grün".encode()), 5),
        )
        front = {"name": name, "description": "x"}
        return Skill(path, front, None if name == "c" else files)

    @property
    def all(self) -> list[Skill]:
        return [self.make(name) for name in "abc"]

    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return [each for each in self.all if after is None or each.path > after][:limit]

    async def get_skill(self, path: Path) -> Any:
        for each in self.all:
            if each.path == path:
                return each
        raise ResourceNotFound


class ListsMore(Skilled):
    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return self.all


class Repeats(Skilled):
    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return self.all[:limit]


class ListsAnything(Skilled):
    async def list_skills(self, *, after: Path | None, limit: int) -> Sequence[Any]:
        return ["a"]


class GetsAnother(Skilled):
    async def get_skill(self, path: Path) -> Any:
        return replace(await super().get_skill(path), files=None)


class GetsAnything(Skilled):
    async def get_skill(self, path: Path) -> Any:
        return self.all[0]


class Misnames(Skilled):
    def make(self, name: str) -> Skill:
        return replace(super().make(name), frontmatter={"name": "z", "description": "x"})


class Undescribed(Skilled):
    def make(self, name: str) -> Skill:
        return replace(super().make(name), frontmatter={"name": name})


class Absent(Skilled):
    def make(self, name: str) -> Skill:
        found = super().make(name)
        if name != "b":
            return found
        return Skill(("d", "SKILL.md"), {"name": "d", "description": "x"}, None)


class LeavesOut(Skilled):
    def make(self, name: str) -> Skill:
        return replace(super().make(name), files=())


class Digests(Skilled):
    def make(self, name: str) -> Skill:
        found = super().make(name)
        return replace(found, files=found.files and (replace(found.files[0], size=5),))


class Strays(Skilled):
    def make(self, name: str) -> Skill:
        found = super().make(name)
        return replace(found, files=found.files and (*found.files, *self.other(name)))

    def other(self, name: str) -> tuple[SkillFile, ...]:
        return (SkillFile(("b" if name == "a" else "a", "SKILL.md"), digest(b"text"), 4),)


async def test_skills_that_keep_the_rules_are_accepted() -> None:
    await check_provider(Skilled())


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (ListsMore, "a page has at most `limit` items"),
        (Repeats, "list_skills returns each skill once"),
        (ListsAnything, "methods return the types declared in resource_server.provider"),
        (GetsAnother, "get_skill returns what list_skills does"),
        (GetsAnything, "an absent path raises ResourceNotFound"),
        (Misnames, "a skill is a SKILL.md in a collection of its name"),
        (Undescribed, "a skill has a description"),
        (Absent, "the SKILL.md of a skill is a document"),
        (LeavesOut, "the files of a skill are its SKILL.md and others, each once"),
        (Digests, "the digest of a file is that of the bytes that a read returns"),
        (Strays, "the files of a skill are below its collection"),
    ],
)
async def test_a_broken_rule_of_skills_is_named(broken: type[Skilled], rule: str) -> None:
    with pytest.raises(ProviderViolations) as found:
        await check_provider(broken())
    assert any(each.startswith(rule) for each in found.value.violations), found.value.violations
