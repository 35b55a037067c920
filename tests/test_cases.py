from __future__ import annotations

import pytest

from tests.cases import for_each


@pytest.mark.anyio
async def test_all_cases_run_and_each_that_fails_is_reported() -> None:
    seen: list[tuple[int, str]] = []

    @for_each("number", [1, pytest.param(2, id="two"), 3])
    @for_each("letter", "ab")
    async def case(number: int, letter: str) -> None:
        seen.append((number, letter))
        assert (number, letter) not in ((2, "a"), (2, "b"), (3, "b"))

    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed") as failed:
        await case()
    assert seen == [(number, letter) for number in (1, 2, 3) for letter in "ab"]
    two, three = failed.value.exceptions
    assert "2 of 2 cases failed" in str(two)
    assert two.__notes__ == ["in case 1: two"]
    assert three.__notes__ == ["in case 1: {'letter': 'b'}", "in case 2: {'number': 3}"]


def test_a_case_may_have_fixtures_and_one_failure_is_raised_as_it_is() -> None:
    @for_each(("one", "two"), [(1, 1), (1, 2)], ids=["same", "other"])
    def case(one: int, two: int, fixture: int) -> None:
        assert one == two == fixture

    with pytest.raises(AssertionError) as failed:
        case(fixture=1)
    assert failed.value.__notes__ == ["in case 1: other"]


def test_a_case_with_a_mark_is_refused() -> None:
    with pytest.raises(AssertionError, match="a test of its own"):
        for_each("one", [pytest.param(1, marks=pytest.mark.deep)])
