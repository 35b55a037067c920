"""Tools and prompts on pages: a form for each, and what it gives a model."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.explorer.shop import Elements, fetched, text_of
from tests.transports.program import Answer, Program, request


def called(program: Program, name: str, kind: str = "tools", /, **fields: str) -> Answer:
    return program.ask(
        request(
            "POST",
            urlencode(fields).encode(),
            path=f"/explore/{kind}/{name}",
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
        "dearer",
    ):
        assert name in text


def test_an_argument_of_several_types_is_written_as_text(program: Program) -> None:
    assert "dearer" in text_of(fetched(program, "/explore/tools/dearer"))
    assert "120" in text_of(called(program, "dearer", least="59"))


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


def test_prompts_are_named_beside_the_tools(program: Program) -> None:
    page = fetched(program, "/explore/tools")
    assert "Review a file review" in text_of(page)
    assert "/explore/prompts/review" in Elements(page).links()


def test_the_form_of_a_prompt_suggests_what_a_host_would(program: Program) -> None:
    elements = Elements(fetched(program, "/explore/prompts/review"))
    fields = {each["name"]: each for each in elements.named("input") if "list" in each}
    assert {name: "required" in field for name, field in fields.items()} == {
        "file": True,
        "style": False,
    }
    assert {each["id"] for each in elements.named("datalist")} == {
        each["list"] for each in fields.values()
    }
    values = {each.get("value") for each in elements.named("option")}
    assert {"docs/", "main.py", "short", "<b>long</b>"} <= values
    assert "secret.txt" not in values
    further = Elements(fetched(program, "/explore/prompts/review?file=docs/"))
    assert "docs/prices.md" in {each.get("value") for each in further.named("option")}


def test_a_prompt_shows_the_messages_that_a_model_is_given(program: Program) -> None:
    page = called(program, "review", "prompts", file="docs/prices.md", style="short")
    text = text_of(page)
    assert 'review {"file":"docs/prices.md","style":"short"}' in text
    assert "3 messages, 42 characters, about 11 tokens" in text
    for message in (
        "user file:///project/docs/prices.md 7 characters, about 2 tokens Prices",
        "user 27 characters, about 7 tokens Review this file. Be short.",
        "assistant 8 characters, about 2 tokens I begin.",
    ):
        assert message in text
    assert "/explore/file:%2F%2F/project/docs/prices.md" in Elements(page).links()


def test_a_picture_in_a_prompt_is_shown(program: Program) -> None:
    page = called(program, "review", "prompts", file="docs/dot.gif")
    pictures = [each["src"] for each in Elements(page).named("img")]
    assert pictures == ["/explore/raw/file:%2F%2F/project/docs/dot.gif"]
    assert "[image/gif: " in text_of(page)


def test_what_a_prompt_lacks_is_named(program: Program) -> None:
    for fields, reason in (
        ({"style": "short"}, "Argument 'file' is required"),
        ({"file": "docs/prices.md", "style": "odd"}, "Argument 'style' is one of short"),
        ({"file": "secret.txt"}, "Argument 'file' names nothing that can be read"),
        ({"file": "nothing.txt"}, "Argument 'file' names nothing that can be read"),
    ):
        page = called(program, "review", "prompts", **fields)
        assert page.status == 200
        assert reason in text_of(page)
    assert fetched(program, "/explore/prompts/nothing").status == 404


def test_fields_keep_invisible_characters_which_text_shows_by_number(program: Program) -> None:
    family = "👩\u200d👧 a\u200cb \u202e"
    for page in (
        called(program, "search_resources", query=family),
        called(program, "review", "prompts", file=family),
        fetched(program, f"/explore/search?{urlencode({'query': family})}"),
    ):
        assert family in [each.get("value") for each in Elements(page).named("input")]
    refused = called(program, "query_table", uri="sqlite://shop/orders", where=family)
    assert f">\n{family}</textarea>" in refused.body.decode()
    assert "👩⟨U+200D⟩👧" in text_of(called(program, "search_resources", query=family))
