from __future__ import annotations

import msgspec
import pytest

from resource_server.provider import Resource
from resource_server.provider.search import Hit, SearchPage, SearchRequest, SupportsSearch


def test_progress_is_reported_to_the_server_if_it_listens() -> None:
    examined: list[int] = []
    request = SearchRequest(text="a", where="names", on_progress=examined.append)
    request.report_progress(2)
    request.report_progress(3)
    assert examined == [2, 3]
    SearchRequest(text="a", where="names").report_progress(2)


def test_a_request_is_literal_unless_it_says_otherwise_and_cannot_be_changed() -> None:
    request = SearchRequest(text="a", where="text")
    assert not request.is_pattern
    with pytest.raises(AttributeError):
        request.text = "b"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_page_without_a_position_is_the_last_one() -> None:
    hit = Hit(Resource(path=("a",), name="a"))
    page = SearchPage(hits=[hit])
    assert (page.next, page.total, hit.lines) == (None, None, ())
    assert msgspec.structs.replace(page, next="a").next == "a"


def test_the_ability_is_detected_by_its_method() -> None:
    class Searches:
        def search(self) -> None: ...

    assert isinstance(Searches(), SupportsSearch)
    assert not isinstance(object(), SupportsSearch)
