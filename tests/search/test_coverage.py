"""What a search did not look into: by name, or by reason, always bounded."""

from __future__ import annotations

from resource_server.provider.search import Unsearched
from resource_server.search.coverage import NOT_TEXT, Gaps


def test_documents_that_a_search_alone_gets_further_with_are_named_first() -> None:
    gaps = Gaps()
    gaps.add(("a.png",), NOT_TEXT)
    gaps.add(("b.png",), NOT_TEXT)
    gaps.add(("c.pdf",), "not converted yet", by_itself=True)
    assert gaps.entries() == (
        Unsearched(("c.pdf",), "not converted yet", by_itself=True),
        Unsearched(("a.png",), NOT_TEXT, count=2),
    )


def test_nothing_is_lost_of_very_many() -> None:
    gaps = Gaps()
    for number in range(1000):
        gaps.add((f"{number}",), f"reason {number}")
        gaps.add((f"{number}",), "large", by_itself=True)
    entries = gaps.entries()
    assert len(entries) <= 40
    assert sum(entry.count for entry in entries) == 2000


def test_a_continued_page_names_only_what_an_earlier_one_may_have_searched() -> None:
    gaps = Gaps(is_continued=True)
    gaps.add(("a.png",), NOT_TEXT)
    gaps.add(("b.txt",), "too slow", is_late=True)
    assert gaps.entries() == (Unsearched(("b.txt",), "too slow"),)
