from __future__ import annotations

from tests.explorer.shop import Elements, fetched, text_of
from tests.transports.program import Program


def test_a_search_shows_matches_with_their_lines_and_links(program: Program) -> None:
    page = fetched(program, "/explore/search?query=boil")
    assert "main.py" in text_of(page)
    assert "2 def boil(litres):" in text_of(page)
    assert any(each.endswith("main.py#L2") for each in Elements(page).links())


def test_a_search_shows_the_lines_around_as_well(program: Program) -> None:
    page = text_of(fetched(program, "/explore/search?query=boil&context=1"))
    assert "1 # A comment 2 def boil(litres): 3 return '<b>'" in page


def test_a_search_can_be_below_a_resource(program: Program) -> None:
    page = fetched(program, "/explore/search?query=boil&uri=file%3A%2F%2F%2Fproject%2Fdocs")
    assert "0 matches" in text_of(page)


def test_pages_of_matches_follow_each_other(program: Program) -> None:
    page = fetched(program, "/explore/search?query=sent&uri=sqlite%3A%2F%2Fshop&limit=5")
    [following] = [each["href"] for each in Elements(page).named("a") if each.get("rel") == "next"]
    assert "match" in text_of(fetched(program, following or ""))


def test_a_mistake_is_named(program: Program) -> None:
    page = fetched(program, "/explore/search?query=a&limit=many")
    assert "limit" in text_of(page)


def test_every_match_in_several_mounts_is_a_link_to_it(program: Program) -> None:
    page = fetched(program, "/explore/search?query=e")
    links = [each for each in Elements(page).links() if "://" in each.replace("%2F", "/")]
    assert {each.partition(":")[0].rpartition("/")[2] for each in links} == {"file", "sqlite"}
    assert {fetched(program, each).status for each in links} == {200}
