"""What followers of the list are told when a skill comes, changes or goes, by every watch mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resource_server.providers.filesystem.options import DirectoryOptions
from tests.listeners import EVERY, LIST, Folder, watched

pytestmark = pytest.mark.anyio


def skill_md(about: str) -> str:
    return f"---\nname: tea\ndescription: {about}\n---\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with the skill `skills/tea` and a document beside it."""
    folder = Folder(tmp_path / "root")
    folder.write("skills/tea/SKILL.md", skill_md("Brew tea"))
    folder.write("skills/tea/x.md")
    return folder


async def test_a_changed_skill_md_is_a_change_of_the_list(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow()
        folder.write("skills/tea/SKILL.md", skill_md("Brew black tea"))
        await scene.tells(LIST)
        folder.save("skills/tea/SKILL.md", skill_md("Brew green tea"))
        await scene.tells(LIST)
        folder.write("skills/coffee/SKILL.md", "---\nname: coffee\ndescription: x\n---\n")
        await scene.tells(LIST)
        folder.write("skills/coffee/SKILL.md", "---\nname: coffee\ndescription: Brew coffee\n---\n")
        await scene.tells(LIST)
        folder.remove("skills/tea/SKILL.md")
        await scene.tells(LIST)


async def test_other_documents_of_a_skill_are_mere_content(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.follow()
        folder.write("skills/tea/x.md", "more than it was")
        await scene.tells_nothing()


async def test_a_subscriber_of_a_skill_md_alone_is_told_of_it_alone(folder: Folder) -> None:
    async with watched(folder.root, EVERY) as scene:
        await scene.subscribe("skills/tea/SKILL.md")
        await scene.quiet()
        folder.write("skills/tea/SKILL.md", skill_md("Brew black tea"))
        await scene.tells("skills/tea/SKILL.md")


async def test_a_hidden_skill_md_changes_nothing(folder: Folder) -> None:
    folder.write("skills/.gitignore", "secret/SKILL.md\n")
    folder.write("skills/secret/SKILL.md", "x")
    folder.write("skills/unlisted/SKILL.md", "x")
    hidden: dict[str, Any] = {
        "exclude": ("skills/excluded/SKILL.md",),
        "directories": {"skills/unlisted": DirectoryOptions(listed=False)},
    }
    folder.write("skills/excluded/SKILL.md", "x")
    async with watched(folder.root, EVERY, **hidden) as scene:
        await scene.follow()
        for name in ("secret", "excluded", "unlisted"):
            folder.write(f"skills/{name}/SKILL.md", "more than it was")
            await scene.tells_nothing()
            folder.save(f"skills/{name}/SKILL.md", "and other than it was")
            await scene.tells_nothing()


async def test_a_root_without_skills_has_a_list_without_contents(folder: Folder) -> None:
    async with watched(folder.root, EVERY, skills="off") as scene:
        await scene.follow()
        folder.write("skills/tea/SKILL.md", skill_md("Brew black tea"))
        await scene.tells_nothing()
