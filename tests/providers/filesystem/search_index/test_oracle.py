from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.provider.search import SearchRequest
from tests.providers.filesystem.search_index.oracle import Changes, both, pages, until_current
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def compare(tmp_path: Path, seed: int, rounds: int) -> None:
    root = tmp_path / f"root{seed}"
    root.mkdir()
    changes = Changes(root, seed)
    changes.happen(40)
    async with both(root, tmp_path / "cache") as (indexed, scanned):
        for _ in range(rounds):
            if changes.random.random() < 0.5:
                await until_current(indexed)
            if changes.random.random() < 0.7:
                changes.happen(changes.random.randint(1, 4))
            request, limit = changes.request(), changes.random.choice((1, 3, 1000))
            expected = await pages(scanned, request, limit)
            assert await pages(indexed, request, limit) == expected, (seed, request)


@pytest.mark.parametrize("seed", range(3))
async def test_an_index_changes_no_answer_while_the_folder_changes(
    tmp_path: Path, seed: int
) -> None:
    await compare(tmp_path, seed, 25)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 103))
async def test_an_index_changes_no_answer_in_hundreds_of_searches(
    tmp_path: Path, seed: int
) -> None:
    await compare(tmp_path, seed, 100)


async def test_a_folder_that_is_gone_for_a_while_keeps_its_index(tmp_path: Path) -> None:
    root, away = tmp_path / "root", tmp_path / "away"
    root.mkdir()
    (root / "a.txt").write_text("needle")
    async with both(root, tmp_path / "cache") as (indexed, scanned):
        await until_current(indexed)
        root.rename(away)
        index = indexed.search_index
        assert index is not None
        await until(lambda: index.state.problem is not None)
        away.rename(root)
        await until(lambda: index.state.is_complete)
        request = SearchRequest(text="needle", where="text")
        assert await pages(indexed, request, 9) == await pages(scanned, request, 9)
        assert index.state.documents == 1
