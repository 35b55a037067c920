from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.eager import settle
from tests.providers.filesystem.trees import TREE, plant

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return plant(tmp_path / "root", TREE)


async def test_completion_proceeds_segment_by_segment(root: Path) -> None:
    provider = Filesystem(path=root)

    async def offered(value: str) -> list[str]:
        return sorted(await settle(provider.complete("path", value, given={})))

    assert await offered("") == ["README.md", "a-b/", "a.txt", "a/", "empty/", "src/"]
    assert await offered("read") == ["README.md"]
    assert await offered("src/") == ["src/deep/", "src/main.py"]
    assert await offered("src/de") == ["src/deep/"]
    for value in ("nope/", "src/../", "../", "/etc/", "src//", "a.txt/", "\0/", "src/build/"):
        assert await offered(value) == []
    assert await settle(provider.complete("lines", "1", given={"path": "a.txt"})) == ()


async def test_links_and_single_directories_are_completed_under_their_own_rules(root: Path) -> None:
    (root / "out").symlink_to("../elsewhere")
    (root / "link").symlink_to("a")
    provider = Filesystem(
        path=root,
        symlinks="within-root",
        directories={
            "a-b": DirectoryOptions(exposed=False),
            "src": DirectoryOptions(readable=False),
        },
    )
    offered = await settle(provider.complete("path", "", given={}))
    assert sorted(offered) == ["README.md", "a.txt", "a/", "empty/", "link/"]
