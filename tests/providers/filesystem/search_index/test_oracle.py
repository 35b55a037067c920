from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from resource_server.provider.search import SearchRequest
from resource_server.providers.filesystem import Filesystem
from tests.providers.filesystem.search_index.oracle import (
    SCOPES,
    Changes,
    both,
    builder,
    kill,
    pages,
    rules_of,
    until_current,
)
from tests.waiting import pause, until

pytestmark = pytest.mark.anyio

_BELOW = (*[()] * 4, ("src",), ("docs", "ö"), ("tmp", "c.md"))


async def compare(tmp_path: Path, seed: int, rounds: int, *, kills: bool = False) -> int:
    """Compare searches in round after round; return how many were compared.

    The rules of the folder change now and then, and what builds the index may be killed.
    """
    root, cache = tmp_path / f"root{seed}", tmp_path / f"cache{seed}"
    root.mkdir()
    changes = Changes(root, seed)
    chance = changes.random
    changes.happen(40)
    rules = compared = 0
    while rounds > 0:
        rules = chance.choice((rules, chance.randrange(1000)))
        some = min(rounds, chance.randint(3, 12))
        rounds -= some
        async with contextlib.AsyncExitStack() as stack:
            killed = None
            if kills:
                killed = await stack.enter_async_context(builder(root, cache, rules))
                await pause(chance.random() / 10)
                if chance.random() < 0.3:
                    await kill(killed)
            folders = await stack.enter_async_context(both(root, cache, **rules_of(rules)))
            views = [folders]
            for scopes in SCOPES:
                one, other = [folder.narrowed(scopes) for folder in folders]
                await stack.enter_async_context(one)
                await stack.enter_async_context(other)
                views.append((one, other))
            last = chance.randrange(some)
            for number in range(some):
                await _compare(changes, views, (seed, rules))
                compared += len(views)
                if killed is not None and number == last:
                    await kill(killed)
    return compared


async def _compare(
    changes: Changes, views: Sequence[tuple[Filesystem, Filesystem]], case: object
) -> None:
    """Make some changes; then search in each view of the folder with an index and without."""
    chance = changes.random
    if chance.random() < 0.5:
        await until_current(views[0][0])
    if chance.random() < 0.7:
        changes.happen(chance.randint(1, 4))
    for indexed, scanned in chance.sample(views, len(views)):
        request, limit = changes.request(), chance.choice((1, 3, 1000))
        below = chance.choice(_BELOW)
        expected = await pages(scanned, request, limit, below)
        assert await pages(indexed, request, limit, below) == expected, (case, request, below)


@pytest.mark.parametrize("seed", range(3))
async def test_an_index_changes_no_answer_while_the_folder_changes(
    tmp_path: Path, seed: int
) -> None:
    await compare(tmp_path, seed, 12)


@pytest.mark.deep
@pytest.mark.parametrize("seed", [100])
async def test_an_index_changes_no_answer_while_processes_that_build_it_are_killed(
    tmp_path: Path, seed: int
) -> None:
    await compare(tmp_path, seed, 50, kills=True)


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
