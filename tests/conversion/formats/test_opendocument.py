"""ODT as Markdown, and the parts that it shares with ODP and ODS."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest

from resource_server.conversion.formats.opendocument import open_archive, text_html
from resource_server.conversion.formats.word import convert
from resource_server.conversion.pool import Conversion
from resource_server.errors import ConversionError
from tests.cases import for_each
from tests.conversion.formats.damaged import damaged_archives
from tests.conversion.formats.zipped import parts_of, pooled, text_of, unzipped, xml_bombs, zipped

_ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "style": "style",
        "draw": "drawing",
        "svg": "svg-compatible",
        "fo": "xsl-fo-compatible",
    }.items()
)
_ODT_STYLES = """<office:automatic-styles>
<style:style style:name="T1" style:family="text"><style:text-properties text:display="none"/>
</style:style>
<style:style style:name="T2" style:family="text"><style:text-properties fo:font-weight="bold"/>
</style:style>
<style:style style:name="T3" style:family="text">
<style:text-properties style:text-position="super 58%"/></style:style>
<text:list-style style:name="L1"><text:list-level-style-number text:level="1"
style:num-format="1"/></text:list-style></office:automatic-styles>"""
_ODT_BODY = """
<text:tracked-changes><text:changed-region><text:deletion><text:p>deleted-1</text:p>
</text:deletion></text:changed-region></text:tracked-changes>
<text:h text:outline-level="2">Topic</text:h>
<text:p>See <text:a xlink:href="https://e.org/?a=1&amp;b=2">the page</text:a>
<text:span text:style-name="T2">bold</text:span><text:span text:style-name="T1">hidden-1</text:span>
<office:annotation><text:p>comment-1</text:p></office:annotation>claim<text:note
text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body>
<text:p>note-fact</text:p></text:note-body></text:note></text:p>
<text:section text:display="none"><text:p>hidden-2</text:p></text:section>
<text:list text:style-name="L1"><text:list-item><text:p>first</text:p><text:list>
<text:list-item><text:p>below</text:p></text:list-item></text:list></text:list-item>
<text:list-item><text:p>second</text:p></text:list-item></text:list>
<table:table><table:table-header-rows><table:table-row>
<table:table-cell><text:p>City</text:p></table:table-cell>
<table:table-cell><text:p>Height</text:p></table:table-cell></table:table-row>
</table:table-header-rows><table:table-row>
<table:table-cell><text:p>La Paz</text:p></table:table-cell>
<table:table-cell><text:p>3,640</text:p></table:table-cell></table:table-row></table:table>
<text:p>last<text:s text:c="999999999"/>word</text:p>"""


def _odt(body: str = _ODT_BODY, **members: str) -> bytes:
    content = (
        f'<office:document-content {_ODF} xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{_ODT_STYLES}<office:body><office:text>{body}</office:text></office:body>"
        "</office:document-content>"
    )
    return zipped(
        {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content, **members}
    )


def test_an_odt_keeps_headings_lists_tables_links_and_notes() -> None:
    text = text_of(convert, _odt())
    for fact in (
        "## Topic\n",
        "[the page](https://e.org/?a=1&b=2)",
        "**bold**",
        "claim[^1]",
        "[^1]: note-fact",
        "1. first\n   - below\n2. second\n",
        "| City | Height |\n| --- | --- |\n| La Paz | 3,640 |\n",
        "last",
        "word",
    ):
        assert fact in text


def test_deletions_and_hidden_text_of_an_odt_are_absent() -> None:
    text = text_of(convert, _odt())
    for absent in ("deleted-", "hidden-"):
        assert absent not in text
    assert len(text) < 1000


def test_a_protected_odt_says_so() -> None:
    with pytest.raises(ConversionError, match="password"):
        text_of(
            convert,
            _odt(**{"META-INF/manifest.xml": "<m><encryption-data/></m>"}),
        )


def test_a_document_in_one_xml_file_is_read_like_its_archive() -> None:
    document = _odt()
    content = unzipped(document)["content.xml"]
    assert text_html(open_archive(io.BytesIO(b"\xef\xbb\xbf\n" + content))) == text_html(
        open_archive(io.BytesIO(document))
    )


_BOMBS = xml_bombs("document-content")


@for_each("name", list(_BOMBS))
def test_hostile_xml_is_refused(name: str) -> None:
    with pytest.raises(ConversionError):
        text_of(convert, zipped({"content.xml": _BOMBS[name]}))


def test_raised_text_is_not_joined_to_the_number_before_it() -> None:
    body = '<text:p>10<text:span text:style-name="T3">6</text:span>m</text:p>'
    assert text_of(convert, _odt(body)).startswith("10<sup>6</sup>m\n")


def test_ruby_follows_its_text_once() -> None:
    ruby = "<text:ruby-base>漢字</text:ruby-base><text:ruby-text>かんじ</text:ruby-text>"
    body = f"<text:p>a<text:ruby>{ruby}</text:ruby>b</text:p>"
    assert text_of(convert, _odt(body)).startswith("a漢字(かんじ)b\n")


def test_cells_that_repeat_without_text_add_little() -> None:
    cell = '<table:table-cell table:number-columns-repeated="999999999"/>'
    row = f"<table:table-row>{cell * 50}</table:table-row>"
    assert len(text_of(convert, _odt(f"<table:table>{row}</table:table>"))) < 10_000


def test_an_odt_whose_tables_repeat_a_million_cells_is_refused() -> None:
    def table(rows: int) -> str:
        cells = (
            f'<table:table-cell table:number-columns-repeated="64"><text:p>x{at * 7919 % 10007}'
            "</text:p></table:table-cell>"
            for at in range(20 * rows)
        )
        return f"<table:table><table:table-row>{''.join(cells)}</table:table-row></table:table>"

    with pytest.raises(ConversionError, match="repeat more than 300,000 cells"):
        text_of(convert, _odt(table(800)))
    assert text_of(convert, _odt(table(2) * 2)).count("x") == 2 * 2560


def test_damaged_documents_raise_nothing_but_conversion_errors() -> None:
    document = _odt()
    for data in damaged_archives(document, count=300, of_each=60):
        with suppress(ConversionError):
            text_of(convert, data)


def test_a_confined_worker_converts_an_odt() -> None:
    (result,) = pooled("resource_server.conversion.formats.word:convert", [_odt()])
    assert isinstance(result, Conversion)
    assert list(result.parts) == parts_of(convert, _odt())
