"""HTML as Markdown."""

from __future__ import annotations

import io
import time
from contextlib import suppress

import pytest

from resource_server.conversion.formats.html import convert, markdown_of
from resource_server.conversion.pool import Conversion
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest
from tests.cases import for_each
from tests.conversion.formats.damaged import damaged
from tests.conversion.formats.zipped import pooled

_PAGE = """<!doctype html><html><head><title>Quarter &amp; year</title>
<style>.styled{color:red}</style><script>var scripted = 1;</script></head><body>
<!-- commented --><nav><a href="/contents">Contents</a></nav>
<h1>Report</h1>
<p>Profit of <b>1,234</b> in <a href="https://e.org/q?a=1&amp;b=2">the source</a>.</p>
<div hidden>hidden-1</div><div style="color:red; DISPLAY : none !important">hidden-2</div>
<template>hidden-3</template><span aria-hidden="true">hidden-4</span>
<input type="hidden" value="hidden-5"><div style="visibility:hidden">hidden-6</div>
<noscript>hidden-7</noscript>
<table><thead><tr><th>City</th><th>Height</th></tr></thead>
<tbody><tr><td>La Paz</td><td>3,640 | m</td></tr></tbody></table>
<ul><li>first<ul><li>second</li></ul></li></ul>
<pre><code class="language-python">if x:
    y()</code></pre>
<img src="data:image/png;base64,iVBORw0KGgoAAAANSUhEUg" alt="a chart">
</body></html>"""


def _text(data: bytes, **options: str) -> str:
    request = ConversionRequest(media_type="text/html", options=options)
    (part,) = convert(io.BytesIO(data), request)
    assert isinstance(part.data, str)
    assert (part.number, part.total, part.mime_type) == (1, 1, "text/markdown")
    return part.data


def test_raised_text_is_not_joined_to_the_number_before_it() -> None:
    assert _text(b"<p>10<sup>6</sup> H<sub>2</sub>O</p>") == "10<sup>6</sup> H2O\n"


def test_headings_links_lists_tables_and_code_are_kept() -> None:
    text = _text(_PAGE.encode())
    for fact in (
        "# Report",
        "**1,234**",
        "[the source](https://e.org/q?a=1&b=2)",
        "[Contents](/contents)",
        "| City | Height |",
        "| La Paz | 3,640 \\| m |",
        "- first\n  - second",
        "```python\nif x:\n    y()\n```",
        "a chart",
    ):
        assert fact in text


def test_scripts_styles_comments_and_hidden_text_are_dropped() -> None:
    text = _text(_PAGE.encode())
    for absent in ("scripted", "styled", "commented", "hidden-", "iVBOR", "base64"):
        assert absent not in text


def test_the_title_comes_first_unless_a_heading_has_it() -> None:
    assert _text(_PAGE.encode()).startswith("# Quarter & year\n\n")
    assert _text(b"<title>A b</title><h1>A  b</h1>").count("A b") == 1


@for_each(
    ("head", "encoding"),
    [
        ('<meta charset="windows-1251">', "cp1251"),
        (
            '<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">',
            "cp932",
        ),
        ("<meta charset=utf-8>", "utf-8"),
        ("<?xml version='1.0' encoding='iso-8859-1'?>", "cp1252"),
        ("", "utf-16"),
        ("", "utf-8"),
        ("", "utf-8-sig"),
    ],
)
def test_the_encoding_is_found(head: str, encoding: str) -> None:
    word = {"cp1251": "Привет, мир", "cp932": "日本語の文章"}.get(encoding, "Größe “naïve”")
    assert word in _text(f"{head}<p>{word}</p>".encode(encoding))


def test_the_encoding_that_is_asked_for_wins() -> None:
    assert "Дом" in _text("<meta charset=latin1><p>Дом".encode("koi8-r"), encoding="koi8-r")


def test_a_mark_at_the_start_wins_over_a_wrong_declaration() -> None:
    assert "Größe" in _text("<meta charset=big5><p>Größe".encode("utf-8-sig"))


def test_a_wrong_declaration_does_not_garble_the_text() -> None:
    assert "Größe" in _text("<meta charset=euc-jp><p>Größe des Hauses".encode())


def test_fragments_are_converted() -> None:
    assert markdown_of("<td>one") == "one\n"
    assert markdown_of("") == ""
    assert markdown_of("plain &lt;text&gt;") == "plain <text>\n"


@for_each(
    "hostile",
    [
        "<div>" * 200_000 + "x",
        "<b>" * 100_000 + "x",
        "<table><tr><td>" * 20_000 + "x",
        "<a " + "x=1 " * 300_000 + ">y</a>",
        "<" * 1_000_000,
        "&" * 1_000_000,
        "<!--" * 300_000,
        "<b><i><u>x</b>" * 5_000,
        "<table><td colspan=1000000000 rowspan=1000000000>a<td>b</table>",
        "<table>" + "<tr><td rowspan=65534 colspan=1000>a" * 300,
        "<title>" * 100_000,
        "<meta " * 30_000,
        "\0<p>a\0b</p>&#xD800;&#x110000;",
    ],
)
def test_hostile_documents_end_soon(hostile: str) -> None:
    begin = time.process_time()
    try:
        text = _text(hostile.encode())
    except ConversionError:
        text = ""
    assert time.process_time() - begin < 10
    assert len(text) < 20_000_000


def test_text_that_is_nested_too_deeply_is_not_dropped_silently() -> None:
    with pytest.raises(ConversionError, match="nested"):
        markdown_of("<div>" * 100_000 + "x")
    assert "nested too deeply" in markdown_of("<p>fact</p>" + "<div>" * 100_000 + "x")


def test_damaged_documents_raise_nothing_but_conversion_errors() -> None:
    begin = time.process_time()
    for data in damaged(_PAGE.encode(), count=400):
        with suppress(ConversionError):
            _text(data)
    assert time.process_time() - begin < 60


def test_what_a_class_or_id_hides_is_dropped_unless_another_rule_shows_it() -> None:
    css = """/* .commented{display:none} */ @media print {.printed{display:none}}
        .A, .b{color:red; DISPLAY : none} #c{visibility:hidden} p .nested{display:none}
        .tab{display:none} .tab.open{display:block}"""
    names = ("A", "b", "commented", "printed", "nested", "tab", "a")
    text = markdown_of(
        f"<STYLE media=all>{css}</STYLE>"
        + "".join(f"<p class='x {name}'>is-{name}</p>" for name in names)
        + "<p id=c>is-c</p>"
    )
    assert text.split() == ["is-commented", "is-printed", "is-nested", "is-tab", "is-a"]


@for_each(
    "css",
    [
        "/* " * 300_000,
        "{" * 500_000 + "}" * 500_000,
        "".join(f".a{number}{{display:none}}" for number in range(50_000)),
        "</style><style" * 60_000,
    ],
)
def test_hostile_style_sheets_end_soon(css: str) -> None:
    begin = time.process_time()
    with suppress(ConversionError):
        markdown_of(f"<style>{css}</style><p>text</p>" + "<p class=b>x" * 1000)
    assert time.process_time() - begin < 10


@for_each("css", ["display:none;" * 80_000, "@media " + "(" * 900_000])
def test_a_long_style_sheet_without_braces_is_read_within_the_time(css: str) -> None:
    document = f"<style>{css}</style><p>text".encode()
    (found,) = pooled("resource_server.conversion.formats.html:convert", [document])
    assert isinstance(found, Conversion), found
    assert "text" in str(found.parts[0].data)


@for_each(
    "table",
    [
        "<table><tr>" + "<td>1" * 9_000 + "<tr><td>the last row" * 9_000 + "</table>",
        "<table><tr>" + '<td colspan="1000">1' * 2_000 + "<tr><td>the last row" * 9_000,
        "<table><tr><td><table><tr>" + "<td>1" * 9_000 + "<tr><td>the last row" * 9_000,
    ],
)
def test_a_table_of_very_unequal_rows_is_not_filled_up(table: str) -> None:
    text = markdown_of(f"<p>before</p>{table}")
    assert text.count("the last row") == 9_000
    assert "row by row" in text
    assert len(text) < 2 * len(table)


def test_values_of_forms_are_shown_and_closed_dialogs_are_not() -> None:
    text = markdown_of(
        "<p>Name <input value='Ada &amp; Bo'> <input type=checkbox checked> agree"
        ' <input type="hidden" value="gone-1"><input type=password value=gone-2>'
        "<input hidden value=gone-3></p><dialog>gone-4</dialog><dialog open>asked</dialog>"
    )
    assert " ".join(text.split()) == "Name Ada & Bo [x] agree asked"


def test_a_table_of_several_hundred_thousand_cells_stays_one_table() -> None:
    rows = "".join(f"<tr><td>{at}</td><td>a|b</td><td></td></tr>\n" for at in range(80_000))
    text = markdown_of(f"<h1>t</h1><table><tr><th>n<th>x<th>y</tr>{rows}</table><p>after</p>")
    lines = text.splitlines()
    assert lines[:5] == ["# t", "", "| n | x | y |", "| --- | --- | --- |", "| 0 | a\\|b |  |"]
    assert lines[4:-2] == [f"| {at} | a\\|b |  |" for at in range(80_000)]
    assert lines[-2:] == ["", "after"]
