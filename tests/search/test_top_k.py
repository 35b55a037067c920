from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.search.name_match import NameQuery
from resource_server.search.top_k import TopK, to_path
from tests.cases import for_each

NAMES = st.lists(st.text("abx", min_size=1, max_size=5), unique=True, max_size=40)


def page(
    walk: list[str], after: str | None, limit: int, most: int | None, *, has_windows: bool = True
) -> tuple[list[str], str | None, int]:
    """Walk on from a page, at most some steps, and return the next."""
    names = NameQuery("a")
    best = TopK[str](names.key, after, limit, has_windows=has_windows)
    at = walk.index(best.start[0]) + 1 if best.start else 0
    end = walk.index(best.end[0]) + 1 if best.end else len(walk)
    rest = walk[at:end]
    some = rest[:most]
    for name in some:
        rank = names.rank((name,))
        if rank is not None:
            best.add((name,), rank, name.lower)
    return best.page((some[-1],) if len(some) < len(rest) else None)


@pytest.mark.parametrize("has_windows", [True, False])
@given(walk=NAMES, limit=st.integers(1, 7), seed=st.integers())
def test_each_name_is_on_one_page_however_early_a_walk_ends(
    walk: list[str], limit: int, seed: int, *, has_windows: bool
) -> None:
    if has_windows:
        walk.sort()
    steps = random.Random(seed)  # noqa: S311
    found: list[str] = []
    after: str | None = None
    while True:
        most = steps.choice([None, 1, 2, 5, 9])
        some, following, beyond = page(walk, after, limit, most, has_windows=has_windows)
        assert len(some) <= limit
        found += some
        if following is None:
            assert not beyond
            break
        assert following != after
        after = following
    assert sorted(found) == sorted(name for name in walk if "a" in name)


@given(walk=NAMES, limit=st.integers(1, 7), most=st.integers(1, 40))
def test_the_pages_of_a_window_are_ordered_best_first(
    walk: list[str], limit: int, most: int
) -> None:
    walk.sort()
    found, after, beyond = page(walk, None, limit, most)
    while after is not None and "\0" in after:
        known = beyond
        some, after, beyond = page(walk, after, limit, None)
        assert beyond == known - len(some)
        found += some
    names = NameQuery("a")
    assert found == sorted(
        (name for name in walk[:most] if "a" in name),
        key=lambda name: names.key((name,), names.rank((name,)) or 0),
    )
    assert after == (walk[most - 1] if most < len(walk) else None)


@for_each(
    "forged",
    [
        "a//b",
        "../x",
        "\0zzz",
        "a\0b\0c",
        "\0\0x\0a",
        "\0\0¹\0a",
        "\0..\x000\0a",
        "\0\x000\0",
        "\0\x000\0a\0b",
        "\0\x001234567890\0a",
    ],
)
def test_a_forged_cursor_is_refused(forged: str) -> None:
    with pytest.raises(InvalidParameter):
        TopK[str](NameQuery("a").key, forged, 1)


def test_a_path_with_invalid_utf_8_round_trips() -> None:
    assert to_path("a/\udcff b") == ("a", "\udcff b")
    assert to_path("") == ()


def test_a_forged_path_of_very_many_segments_is_refused() -> None:
    assert len(to_path("/".join("a" * 2000))) == 2000
    with pytest.raises(InvalidParameter):
        to_path("/".join("a" * 2001))
