"""Names in a folder, with a README below as people know it."""

from __future__ import annotations

from tests.explorer.shop import Elements, fetched, opened, text_of
from tests.transports.program import Program


def test_a_folder_shows_names_sizes_and_its_readme(program: Program) -> None:
    page = opened(program, "file:///project")
    text = text_of(page)
    assert "main.py 47 bytes" in text
    assert "docs /" in text
    assert "<h1>Shop</h1>" in page.body.decode()
    assert "secret" not in text


def test_every_link_of_a_folder_leads_to_a_page(program: Program) -> None:
    page = opened(program, "file:///project")
    links = [each for each in Elements(page).links() if "/explore/file:" in each]
    assert len(links) > 6
    assert {fetched(program, each).status for each in links} == {200}


def test_names_are_text(program: Program) -> None:
    page = opened(program, "file:///project")
    assert all(
        not name.startswith("on") for _, attributes in Elements(page).tags for name in attributes
    )
    assert '"><img src=x onerror=alert(1)>.txt' in text_of(page)
    assert "\u202e" not in page.body.decode()


def test_the_way_to_a_document_has_all_folders_above(program: Program) -> None:
    page = opened(program, "file:///project/docs/prices.md")
    assert text_of(page).startswith(
        "Skip to the content Tea shop Tools and prompts Start project docs prices.md"
    )


def test_further_pages_of_a_folder_are_live_and_seen_as_the_whole(program: Program) -> None:
    page = opened(program, "file:///project/many")
    [following] = [each["href"] for each in Elements(page).named("a") if each.get("rel") == "next"]
    page = fetched(program, following or "")
    assert page.status == 200
    [live] = [each["data-live"] for each in Elements(page).named("p") if "data-live" in each]
    assert live == "/explore/live/file:%2F%2F/project/many"
    assert "/explore/model/file:%2F%2F/project/many" in Elements(page).links()
