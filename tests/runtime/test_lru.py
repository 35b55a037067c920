"""What a memo keeps, and that it stays bounded."""

from __future__ import annotations

from resource_server.runtime.lru import Memo


def test_a_key_is_new_once() -> None:
    memo = Memo[str, int](8)
    assert memo.is_new("a")
    assert not memo.is_new("a")


def test_what_was_put_is_found() -> None:
    memo = Memo[str, int](8)
    assert memo.get("a") is None
    memo.put("a", 1)
    assert memo.get("a") == 1


def test_one_pass_over_many_keys_pushes_nothing_out_and_keeps_no_memory() -> None:
    memo = Memo[int, int](8)
    memo.put(-1, 1)
    new = [key for key in range(10_000) if memo.is_new(key)]
    assert len(new) == 10_000
    assert memo.get(-1) == 1
    assert memo.is_new(0), "marks are forgotten, too"


def test_the_oldest_goes_first_when_it_is_full() -> None:
    memo = Memo[int, int](2)
    for key in (1, 2, 3):
        memo.put(key, key)
    assert [memo.get(key) for key in (1, 2, 3)] == [None, 2, 3]
