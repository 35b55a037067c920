from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from resource_server import access
from resource_server.access import Caller
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.filesystem import Filesystem

pytestmark = pytest.mark.anyio


def folder(top: Path, files: Mapping[str, str]) -> Filesystem:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return Filesystem(path=top)


def skills(*names: str) -> dict[str, str]:
    return {
        f"{name}/SKILL.md": f"---\nname: {name}\ndescription: About {name}\n---\n" for name in names
    }


async def listed(catalog: Catalog) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await catalog.skills(after)
        found += [entry.mount.uri(entry.skill.path) for entry in page.entries]
        after = page.next_cursor
        if after is None:
            return found


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_pages_go_from_mount_to_mount(tmp_path: Path, size: int) -> None:
    mounts = [
        Mount("one", "test://one/", folder(tmp_path / "one", skills("a", "b"))),
        Mount("none", "test://none/", folder(tmp_path / "none", {"x": ""})),
        Mount("two", "test://two/", folder(tmp_path / "two", skills("a", "b", "c"))),
        Mount("off", "test://off/", folder(tmp_path / "off", skills("a")), listed=False),
    ]
    catalog = Catalog(mounts, CatalogLimits(page_size=size))
    assert await listed(catalog) == [
        *(f"test://one/{name}/SKILL.md" for name in "ab"),
        *(f"test://two/{name}/SKILL.md" for name in "abc"),
    ]
    unlisted = await catalog.skill("test://off/a/SKILL.md")
    assert unlisted.skill.frontmatter["name"] == "a"
    with pytest.raises(InvalidParameter):
        await catalog.skills("forged")


async def test_a_page_ends_when_it_has_many_files(tmp_path: Path) -> None:
    files = {f"{name}/{number}": "" for name in "abcdef" for number in range(511)}
    catalog = Catalog(
        [Mount("one", "test://one/", folder(tmp_path, {**skills(*"abcdef"), **files}))]
    )
    page = await catalog.skills()
    assert len(page.entries) == 4
    assert await listed(catalog) == [f"test://one/{name}/SKILL.md" for name in "abcdef"]


async def test_a_skill_whose_uris_lead_to_another_mount_is_left_out(tmp_path: Path) -> None:
    outer = folder(tmp_path / "outer", {**skills("plain", "inside"), "team/x/SKILL.md": "---\n"})
    folder(tmp_path / "outer/team", skills("x"))
    inner = folder(tmp_path / "inner", skills("x"))
    data = folder(tmp_path / "data", {"x": ""})
    catalog = Catalog(
        [
            Mount("outer", "test://a/", outer),
            Mount("inner", "test://a/team/", inner),
            Mount("data", "test://a/inside/data/", data),
            Mount("other", "other://a/plain/", data),
        ]
    )
    assert await listed(catalog) == ["test://a/plain/SKILL.md", "test://a/team/x/SKILL.md"]
    assert (await catalog.skill("test://a/team/x/SKILL.md")).mount.name == "inner"
    with pytest.raises(ResourceNotFound):
        await catalog.skill("test://a/inside/SKILL.md")


async def test_skills_of_a_mount_need_its_scopes(tmp_path: Path) -> None:
    mounts = [
        Mount("one", "test://one/", folder(tmp_path / "one", skills("a"))),
        Mount(
            "two",
            "test://two/",
            folder(tmp_path / "two", skills("a")),
            access=frozenset({"staff"}),
        ),
    ]
    catalog = Catalog(mounts)
    with access.acting(Caller(scopes=frozenset())):
        assert await listed(catalog) == ["test://one/a/SKILL.md"]
        with pytest.raises(ResourceNotFound):
            await catalog.skill("test://two/a/SKILL.md")
    with access.acting(Caller(scopes=frozenset({"staff"}))):
        assert len(await listed(catalog)) == 2
