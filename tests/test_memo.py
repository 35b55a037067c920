"""What a memo keeps, and that it stays bounded."""

from __future__ import annotations

from resource_server.memo import Memo


def test_what_is_put_twice_is_kept() -> None:
    memo = Memo[str, int](8)
    memo.put("a", 1)
    assert memo.get("a") is None
    memo.put("a", 2)
    assert memo.get("a") == 2


def test_one_pass_over_many_keys_pushes_nothing_out() -> None:
    memo = Memo[int, int](8)
    for _ in range(2):
        memo.put(-1, 1)
    for key in range(10_000):
        memo.put(key, key)
    assert memo.get(-1) == 1


def test_the_oldest_goes_first_when_it_is_full() -> None:
    memo = Memo[int, int](2)
    for key in (1, 2, 3):
        memo.put(key, key)
        memo.put(key, key)
    assert [memo.get(key) for key in (1, 2, 3)] == [None, 2, 3]
