"""Tools on pages: a form from the schema, and what the call gives a model."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.explorer.shop import Elements, fetched, text_of
from tests.transports.program import Answer, Program, request


def called(program: Program, tool: str, **fields: str) -> Answer:
    return program.ask(
        request(
            "POST",
            urlencode(fields).encode(),
            path=f"/explore/tools/{tool}",
            accept="text/html",
            content_type="application/x-www-form-urlencoded",
            sec_fetch_site="same-origin",
        )
    )


def test_all_tools_are_named_with_their_descriptions(program: Program) -> None:
    text = text_of(fetched(program, "/explore/tools"))
    for name in (
        "list_resources",
        "read_resource",
        "search_resources",
        "query_table",
        "of_country",
    ):
        assert name in text


def test_a_form_has_a_field_for_each_argument(program: Program) -> None:
    page = fetched(program, "/explore/tools/search_resources")
    names = {
        each["name"]
        for tag in ("input", "select")
        for each in Elements(page).named(tag)
        if "name" in each
    }
    assert {"query", "uri", "in", "case", "limit", "show"} <= names


def test_a_call_shows_what_a_model_is_given(program: Program) -> None:
    page = called(program, "search_resources", query="Prices", uri="file:///project", limit="3")
    assert 'search_resources {"query":"Prices"' in text_of(page)
    assert '"limit":3' in text_of(page)
    assert "docs/prices.md" in text_of(page)
    assert "Hosts that take JSON" in text_of(page)


def test_a_mistake_in_a_field_is_named(program: Program) -> None:
    page = called(program, "query_table", uri="sqlite://shop/orders", where="{not json")
    assert "where: expected a number, or JSON" in text_of(page)


def test_an_unknown_tool_is_not_found(program: Program) -> None:
    assert fetched(program, "/explore/tools/nothing").status == 404


def test_a_foreign_page_cannot_call_a_tool(program: Program) -> None:
    for headers in (
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "null"},
        {},
    ):
        refused = program.ask(
            request("POST", b"query=a", path="/explore/tools/search_resources", **headers)
        )
        assert refused.status == 403


def test_a_form_with_far_too_many_fields_is_refused(program: Program) -> None:
    for body, status in ((b"a=1&" * 300, 200), (b"a=1&" * 1_000_000, 413)):
        asked = request(
            "POST", body, path="/explore/tools/list_resources", sec_fetch_site="same-origin"
        )
        assert program.ask(asked).status == status


def test_deeply_nested_json_is_named_as_a_mistake(program: Program) -> None:
    page = called(program, "query_table", uri="sqlite://shop/orders", where="[" * 3000)
    assert "where: expected a number, or JSON" in text_of(page)
    assert fetched(program, f"/explore/search?query=a&limit={'[' * 3000}").status == 200
