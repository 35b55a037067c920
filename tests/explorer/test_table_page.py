"""Rows on a page: sorted, filtered, counted, linked and paged by clicking."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from urllib.parse import urlencode

from tests.cases import for_each
from tests.explorer.shop import SCRIPT, Elements, fetched, opened, text_of
from tests.transports.program import Answer, Program, running

ORDERS = "sqlite://shop/orders"
ROWS = f"{ORDERS}/~rows"


def ids(answer: Answer) -> list[int]:
    keys = [row.get("data-key") for row in Elements(answer).named("tr")]
    return [int(key.rpartition("/")[2]) for key in keys if key]


def link(answer: Answer, pattern: str) -> str:
    """Return the only link whose address has a part that matches."""
    [found] = {each for each in Elements(answer).links() if re.search(pattern, each)}
    return found


def test_a_table_shows_its_first_rows_and_their_number(program: Program) -> None:
    page = opened(program, ORDERS)
    assert page.status == 200
    assert ids(page) == list(range(1, 51))
    assert "120 rows; 50 on this page" in text_of(page)


def test_clicking_a_heading_sorts_and_clicking_again_reverses(program: Program) -> None:
    page = fetched(program, link(opened(program, ORDERS), r"sort=total$"))
    assert ids(page)[:2] == [1, 2]
    page = fetched(program, link(page, r"sort=-total$"))
    assert ids(page)[:2] == [120, 119]
    assert [each["aria-sort"] for each in Elements(page).named("th") if "aria-sort" in each] == [
        "descending"
    ]


@for_each("uri", [ROWS, f"{ROWS}/", f"{ORDERS}/%7Erows"])
def test_rows_can_be_sorted_in_any_spelling_of_their_address(program: Program, uri: str) -> None:
    assert link(opened(program, uri), "sort=total$")


def test_pages_follow_each_other_to_the_last_row(program: Program) -> None:
    page, seen = opened(program, ORDERS), list[int]()
    while True:
        seen += ids(page)
        following = [each for each in Elements(page).named("a") if each.get("rel") == "next"]
        if not following:
            break
        page = fetched(program, following[0]["href"] or "")
    assert seen == list(range(1, 121))
    assert any(each.get("rel") == "first" for each in Elements(page).named("a"))


def test_a_filter_is_put_together_by_a_form_and_removed_by_a_link(program: Program) -> None:
    form = "/explore/filter?uri=sqlite%3A%2F%2Fshop%2Forders%2F~rows"
    redirected = fetched(program, f"{form}&column=total&operator=ge&value=59")
    assert redirected.status == 303
    page = fetched(program, redirected.headers["location"])
    assert ids(page) == [118, 119, 120]
    assert "total ≥ 59" in text_of(page)
    [removal] = [
        each["href"]
        for each in Elements(page).named("a")
        if (each.get("aria-label") or "").startswith("Remove")
    ]
    assert ids(fetched(program, removal or ""))[:2] == [1, 2]


def test_pages_lead_both_ways(program: Program) -> None:
    def to(page: Answer, rel: str) -> Answer | None:
        links = [each["href"] for each in Elements(page).named("a") if each.get("rel") == rel]
        return fetched(program, links[0] or "") if links else None

    for uri in (f"{ORDERS}?limit=50", f"{ORDERS}?sort=-total&limit=50&where.status.ne=open"):
        last = opened(program, uri)
        assert to(last, "prev") is None
        there = [ids(last)]
        while (page := to(last, "next")) is not None:
            last = page
            there.append(ids(page))
        assert len(there) > 1
        page = to(last, "prev")
        back: list[list[int]] = []
        while page is not None:
            back.insert(0, ids(page))
            assert to(page, "next") is not None
            assert to(page, "first") is not None
            page = to(page, "prev")
        assert back == there[:-1]


def test_a_facet_counts_values_and_filters_by_one(program: Program) -> None:
    page = opened(program, ORDERS)
    assert "status open 40 paid 40 sent 40" in text_of(page)
    page = fetched(program, link(page, r"where\.status=paid$"))
    assert len(ids(page)) == 40
    # Clicking the chosen value again removes the filter.
    [chosen] = [each for each in Elements(page).named("a") if each.get("aria-current") == "true"]
    assert ids(fetched(program, chosen["href"] or "")) == list(range(1, 51))


def test_a_foreign_key_leads_to_its_row_with_its_name(program: Program) -> None:
    page = opened(program, ORDERS)
    assert "1 2 Bo paid 0.5" in text_of(page)
    row = opened(program, "sqlite://shop/orders/1")
    assert row.status == 200
    customer = fetched(program, link(row, r"customers/2$"))
    assert "name Bo" in text_of(customer)


def test_a_masked_column_shows_its_mask_only(program: Program) -> None:
    assert "bo@example.org" not in opened(program, "sqlite://shop/customers").body.decode()
    assert "bo@example.org" not in opened(program, "sqlite://shop/customers/2").body.decode()


def test_a_cell_is_text(program: Program) -> None:
    page = opened(program, ORDERS)
    assert SCRIPT in text_of(page)
    scripts = {each.get("src") or "" for each in Elements(page).named("script")}
    assert all(each.startswith("/explore/assets/") for each in scripts)


def test_a_query_is_asked_for_its_parameters_by_a_form(program: Program) -> None:
    page = opened(program, "sqlite://shop/~query")
    [template] = [
        each["value"] or ""
        for each in Elements(page).named("input")
        if each["name"] == "~template" and "of_country" in (each["value"] or "")
    ]
    encoded = (
        template.replace("{", "%7B").replace("}", "%7D").replace("?", "%3F").replace("=", "%3D")
    )
    redirected = fetched(program, f"/explore/expand?~template={encoded}&country=FR")
    page = fetched(program, redirected.headers["location"])
    assert "Bo" in text_of(page)
    assert "Ada" not in text_of(page)


def test_a_mistake_in_the_address_is_named(program: Program) -> None:
    page = opened(program, f"{ROWS}?sort=nothing")
    assert page.status == 400
    assert "nothing" in text_of(page)


def test_a_hidden_table_answers_as_one_that_does_not_exist(program: Program) -> None:
    hidden, missing = (opened(program, f"sqlite://shop/{name}") for name in ("secrets", "nosuch"))
    assert hidden.status == missing.status == 404
    assert hidden.body == missing.body.replace(b"nosuch", b"secrets")


def test_columns_are_chosen_by_a_form(program: Program) -> None:
    form = "/explore/columns?uri=sqlite%3A%2F%2Fshop%2Forders%2F~rows&column=status&column=id"
    page = fetched(program, fetched(program, form).headers["location"])
    assert "status id" in text_of(page)
    assert [each for each in Elements(page).named("th") if each.get("scope") == "col"][2:] == []
    assert ids(page)[:3] == [1, 2, 3]


def test_a_summary_is_a_table_with_a_chart(program: Program) -> None:
    facet = link(opened(program, ORDERS), r"~summary\?by=status")
    page = fetched(program, facet)
    assert "open 40 paid 40 sent 40" in text_of(page)
    [picture] = Elements(page).named("img")
    chart = fetched(program, picture["src"] or "")
    assert chart.headers["content-type"] == "image/svg+xml"
    assert chart.headers["content-security-policy"] == "sandbox; default-src 'none'"


def test_a_foreign_key_that_is_no_key_leads_to_the_rows_with_its_value(program: Program) -> None:
    page = opened(program, "sqlite://shop/reviews")
    rows = fetched(program, link(page, r"books/~rows\?where\.isbn=x-1$"))
    assert ids(rows) == [7]
    assert "/explore/sqlite:%2F%2Fshop/books/7" in Elements(page).links()


def test_a_long_name_of_a_row_is_shown_as_text(program: Program) -> None:
    text = text_of(opened(program, "sqlite://shop/reviews"))
    assert "long long" in text
    assert "$text" not in text


def test_a_key_that_is_a_name_needs_no_other(program: Program) -> None:
    page = opened(program, "sqlite://shop/things")
    assert page.status == 200
    assert fetched(program, link(page, r"kinds/tea$")).status == 200


def test_a_value_that_is_json_has_a_page(program: Program) -> None:
    for uri in ("sqlite://shop/books/7/~cell/facts", "sqlite://shop/books/7/~cell/id"):
        assert opened(program, uri).status == 200


def test_the_count_of_rows_has_a_page(program: Program) -> None:
    assert "120" in text_of(opened(program, f"{ROWS}?count"))


def test_only_headings_of_columns_with_an_order_sort(program: Program) -> None:
    for table, columns in (("customers", {"id", "name", "country"}), ("orders", {"id", "total"})):
        links = Elements(opened(program, f"sqlite://shop/{table}")).links()
        sorting = {each.partition("sort=")[2]: each for each in links if "sort=" in each}
        assert columns <= {*sorting}
        assert "email" not in sorting  # masked
        assert {fetched(program, each).status for each in sorting.values()} == {200}


def test_the_form_of_filters_offers_what_can_be_filtered_and_names_what_cannot(
    program: Program,
) -> None:
    for table, masked in (("customers", {"email"}), ("orders", set[str]())):
        page = opened(program, f"sqlite://shop/{table}")
        form = re.findall(r'<select name="column">(.*?)</select>', page.body.decode(), re.DOTALL)
        offered = set(re.findall(r'value="(\w+)"', form[0]))
        assert not offered & masked
        for name in offered:
            address = f"/explore/filter?uri=sqlite%3A%2F%2Fshop%2F{table}&column={name}"
            moved = fetched(program, f"{address}&operator=null&value=false")
            assert fetched(program, moved.headers["location"]).status == 200, name
        assert ("Not by masked columns: email" in text_of(page)) == bool(masked)


def test_columns_of_any_name_can_be_chosen(tmp_path: Path) -> None:
    names = ["id", "a,b", 'say "hi"', '"', "-x", " y ", "two\nlines", "\r", "é,", ","]
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute(f"create table odd ({columns}, primary key (id))")
        database.execute("insert into odd default values")
    database.close()
    (tmp_path / "mcp-resources.yaml").write_text(
        'databases: {shop: {url: "sqlite:///shop.db"}}', encoding="utf-8"
    )
    with running(tmp_path / "mcp-resources.yaml") as program:
        page = opened(program, "sqlite://shop/odd")
        boxes = [each for each in Elements(page).named("input") if each.get("type") == "checkbox"]
        assert len(boxes) == len(names)
        for chosen in (names, ["a,b"], ['"', "two\nlines"], [","]):
            query = urlencode(
                [("uri", "sqlite://shop/odd"), *(("column", each) for each in chosen)]
            )
            moved = fetched(program, f"/explore/columns?{query}")
            shown = fetched(program, moved.headers["location"])
            assert shown.status == 200, chosen
            headings = Elements(shown).named("th")
            assert len(headings) == len(chosen), chosen
