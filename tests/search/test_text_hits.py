from __future__ import annotations

import math

from resource_server.provider import Path, Resource
from resource_server.provider.search import SearchRequest
from resource_server.search.text_hits import TextHits
from resource_server.search.text_match import LineQuery


def test_a_full_page_ends_sooner_once_it_has_the_definition_as_typed() -> None:
    request = SearchRequest(text="Needle", where="text", count_s=1.0)
    query, hits = LineQuery(request), TextHits(request, None, 2)

    def add(text: str, *path: str) -> float:
        hits.add(path, query.matches(text.encode(), path=path), lambda: _document(path))
        return hits.until()

    assert add("a needle", "a") == math.inf
    full = add("class needle:", "b")
    assert full < math.inf
    assert add("class Needle:", "dist", "c") == full
    assert add("class Needle:", "d") < full


def _document(path: Path) -> Resource:
    return Resource(path=path, name=path[-1], type="document")
