from __future__ import annotations

from pathlib import Path

import pytest

from tests.providers.filesystem.search_index.oracle import Changes, both, pages, until_current

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
@pytest.mark.parametrize("seed", range(100, 110))
async def test_an_index_changes_no_answer_in_ten_thousand_searches(
    tmp_path: Path, seed: int
) -> None:
    await compare(tmp_path, seed, 1000)
