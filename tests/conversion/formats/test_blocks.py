"""Blocks as HTML: nested lists, tables with gaps, and margins."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.conversion.formats.archives import parse_xml
from resource_server.conversion.formats.blocks import (
    Item,
    comment_of,
    flat,
    formatted,
    html_lines,
    linked,
    lists_of,
    margin_lines,
    sections_of,
    table_of,
)

ITEMS = st.builds(Item, st.integers(0, 4), st.none() | st.integers(1, 3), st.just("x"))


@given(st.lists(ITEMS | st.just("<p>y</p>"), max_size=9))
def test_lists_of_any_levels_are_well_formed_and_lose_nothing(blocks: list[Item | str]) -> None:
    root = parse_xml(f"<div>{lists_of(blocks)}</div>".encode())
    assert "".join(root.itertext()) == "".join(
        "y" if isinstance(each, str) else "x" for each in blocks
    )
    depths: list[int] = []

    def walk(element: Element, depth: int) -> None:
        assert element.tag != "li" or depth
        depths.extend([depth - 1] * (element.text or "").count("x"))
        for child in element:
            walk(child, depth + (child.tag in ("ul", "ol")))

    walk(root, 0)
    assert depths == [each.level for each in blocks if isinstance(each, Item)]


def test_a_list_of_another_kind_or_start_is_a_list_of_its_own() -> None:
    assert lists_of([Item(0, 3, "a"), Item(0, 4, "b"), Item(0, None, "c")]) == (
        '<ol start="3"><li>a</li><li>b</li></ol><ul><li>c</li></ul>'
    )
    assert lists_of([]) == ""


def test_a_table_has_the_width_of_its_longest_row() -> None:
    assert table_of([["a"], [], ["b", "c"]]) == (
        "<table><tr><th>a</th><th></th></tr><tr><td></td><td></td></tr>"
        "<tr><td>b</td><td>c</td></tr></table>"
    )
    assert table_of([]) == table_of([[], []]) == ""


def test_blocks_in_a_cell_are_one_line() -> None:
    blocks = ["<p>one</p>", Item(1, None, "two"), Item(0, 3, "three"), "", table_of([["a", "b"]])]
    assert flat(blocks) == "one<br>• two<br>3. three<br>a, b"
    assert flat([]) == ""


def test_sections_without_blocks_are_left_out() -> None:
    assert sections_of(("A", []), ("B", ["", Item(0, None, "x")])) == (
        "<h3>B</h3><ul><li>x</li></ul>"
    )
    assert sections_of() == ""


@pytest.mark.parametrize(
    ("author", "place", "said"),
    [
        ("", "", "text"),
        ("A  &\nB", "", "A &amp; B: text"),
        ("", "B2", "B2: text"),
        ("A", "B2", "B2 (A): text"),
        (" ", "<", "&lt;: text"),
    ],
)
def test_a_comment_has_its_author_and_place(author: str, place: str, said: str) -> None:
    assert comment_of(author, "text", place) == said


def test_nothing_has_no_format_and_no_link() -> None:
    assert formatted(" ", strong=True) == " "
    assert formatted("a", strong=True, raised=True) == "<strong><sup>a</sup></strong>"
    assert formatted("[^1]", raised=True) == "[^1]"
    assert linked(" ", "x") == " "
    assert linked("a", "") == "a"
    assert linked("a", '"&') == '<a href="&quot;&amp;">a</a>'
    assert html_lines(" <a>\n\nb ") == "&lt;a&gt;<br><br>b"


def test_a_margin_is_said_once_and_not_for_the_number_of_a_page() -> None:
    plain, numbered = Element("w:p"), Element("w:p")
    SubElement(numbered, "w:fldSimple")
    given = [
        ("Header", plain, "Draft"),
        ("Header", numbered, "Draft"),
        ("Footer", numbered, "Page <b>3</b> of 9"),
        ("Footer", numbered, "Page 3 of Report"),
        ("Footer", plain, "Page 3"),
        ("Footer", plain, ""),
    ]
    assert [*margin_lines(given)] == [
        "<p>Header: Draft</p>",
        "<p>Footer: Page 3 of Report</p>",
        "<p>Footer: Page 3</p>",
    ]
