from __future__ import annotations

from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from resource_server import uris
from resource_server.explorer.addresses import (
    breadcrumbs,
    page_address,
    resource_uri,
    with_parameters,
)

SEGMENTS = st.text(min_size=1, max_size=12).filter(uris.is_segment)
PARAMETERS = st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=3)


@given(st.lists(SEGMENTS, max_size=4), PARAMETERS)
def test_the_address_of_a_page_leads_back_to_its_resource(
    path: list[str], query: dict[str, str]
) -> None:
    uri = uris.join("docs://handbook/", path, query)
    address = page_address(uri)
    # As a browser sends it, and a server decodes it: the path once, the query not at all.
    sent, _, parameters = address.partition("?")
    assert "//" not in sent
    assert resource_uri(unquote(sent, errors="surrogateescape"), parameters) == uri


def test_a_space_of_a_form_is_a_space() -> None:
    assert (
        resource_uri("docs://handbook/a", "where.name=Ada+L")
        == "docs://handbook/a?where.name=Ada%20L"
    )


def test_parameters_are_replaced_and_removed() -> None:
    uri = "sqlite://shop/orders/~rows?sort=id&where.status=paid"
    assert with_parameters(uri, {"sort": None, "after": "x"}) == (
        "sqlite://shop/orders/~rows?where.status=paid&after=x"
    )
    assert (
        with_parameters(uri, {"sort": None, "where.status": None}) == "sqlite://shop/orders/~rows"
    )


def test_breadcrumbs_begin_at_the_mount() -> None:
    bases = ["file:///a/", "file:///a/b/", "sqlite://shop/"]
    found = breadcrumbs("file:///a/b/c%20d/e.txt?lines=1-2", bases)
    assert [(each.name, each.uri) for each in found] == [
        ("file:///a/b", "file:///a/b"),
        ("c d", "file:///a/b/c%20d"),
        ("e.txt", "file:///a/b/c%20d/e.txt"),
    ]
