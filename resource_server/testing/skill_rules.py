"""Rules of `list_skills` and `get_skill`: valid skills, whose digests are those of the reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from resource_server.errors import ResourceNotFound
from resource_server.provider import Content, Path, Resource
from resource_server.provider.skills import SKILL_FILE, Skill, SkillFile, SupportsSkills
from resource_server.testing.provider_calls import Calls, brief, is_below

_ABSENT_PATH: Path = ("no-such-3f9c", SKILL_FILE)
_LIMIT = 2
_MAX_SKILLS = 50
_MAX_FILES = 512
_MAX_BYTES = 16 * 1024 * 1024


async def check_skills(calls: Calls) -> None:
    """List all skills, and read every file of them."""
    if not isinstance(calls.provider, SupportsSkills):
        return
    skills: list[Skill] = []
    while len(skills) < _MAX_SKILLS:
        after = skills[-1].path if skills else None
        page = await calls.sequence("list_skills", after=after, limit=_LIMIT)
        known = {skill.path for skill in skills}
        if any(skill.path in known for skill in page):
            calls.broken("list_skills returns each skill once", f"after={brief(after)}")
            break
        skills += page
        if len(page) < _LIMIT:
            break
    for skill in skills:
        found = await calls.call("get_skill", skill.path)
        if found is not None and found != skill:
            rule = "get_skill returns what list_skills does"
            calls.broken(rule, f"get_skill({brief(skill.path)}) gave {brief(found)}")
        await _check(calls, skill)
    found = await calls.call("get_skill", _ABSENT_PATH)
    if found is not None and not isinstance(found, ResourceNotFound):
        rule = "an absent path raises ResourceNotFound"
        calls.broken(rule, f"get_skill({brief(_ABSENT_PATH)}) gave {brief(found)}")


async def _check(calls: Calls, skill: Skill) -> None:
    path, name = skill.path, skill.frontmatter.get("name")
    if path[-1:] != (SKILL_FILE,) or (len(path) > 1 and name != path[-2]):
        rule = f"a skill is a {SKILL_FILE} in a collection of its name"
        calls.broken(rule, f"{brief(path)} has the name {name!r}")
    if not isinstance(skill.frontmatter.get("description"), str):
        calls.broken("a skill has a description", brief(path))
    metadata = await calls.metadata(path)
    if not isinstance(metadata, Resource) or metadata.type != "document":
        calls.broken(f"the {SKILL_FILE} of a skill is a document", f"{brief(path)}")
    if skill.files is not None:
        await _check_files(calls, skill, skill.files)


async def _check_files(calls: Calls, skill: Skill, files: Sequence[SkillFile]) -> None:
    paths = [file.path for file in files]
    if len(set(paths)) < len(paths) or skill.path not in paths:
        rule = f"the files of a skill are its {SKILL_FILE} and others, each once"
        calls.broken(rule, f"{brief(skill.path)} has {brief(paths)}")
    if len(files) > _MAX_FILES or sum(file.size for file in files) > _MAX_BYTES:
        calls.broken("a skill has at most 512 files and 16 MiB", brief(skill.path))
    for file in files:
        if not is_below(file.path, [skill.path[:-1]]):
            calls.broken("the files of a skill are below its collection", brief(file.path))
        contents = await calls.read(file.path)
        if not isinstance(contents, Sequence) or not contents or not _covers(file, contents[0]):
            rule = "the digest of a file is that of the bytes that a read returns"
            calls.broken(rule, f"{brief(file.path)} has {file.digest} and {file.size} bytes")


def _covers(file: SkillFile, content: Content) -> bool:
    data = content.data.encode() if isinstance(content.data, str) else content.data
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return (digest, len(data)) == (file.digest, file.size)
