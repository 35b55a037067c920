"""DOCX as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest

from resource_server.conversion.formats.word import convert
from resource_server.conversion.pool import Conversion
from resource_server.errors import ConversionError
from tests.conversion.formats.damaged import damaged_archives
from tests.conversion.formats.zipped import parts_of, pooled, text_of, xml_bombs, zipped

_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_W = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    f'xmlns:r="{_RELATED}" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)
_STYLES = f"""<w:styles {_W}>
<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="H2"><w:name w:val="heading 2"/></w:style>
<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Mine"/><w:basedOn w:val="H2"/></w:style>
<w:style w:type="paragraph" w:styleId="Loop">
<w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>
<w:style w:type="character" w:styleId="Gone"><w:name w:val="Gone"/>
<w:rPr><w:vanish/></w:rPr></w:style></w:styles>"""
_NUMBERING = f"""<w:numbering {_W}>
<w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:start w:val="3"/>
<w:numFmt w:val="decimal"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl>
</w:abstractNum><w:num w:numId="5"><w:abstractNumId w:val="7"/></w:num></w:numbering>"""
_FOOTNOTES = f"""<w:footnotes {_W}><w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r>
<w:r><w:t>note-fact</w:t></w:r></w:p></w:footnote></w:footnotes>"""
_COMMENTS = f"""<w:comments {_W}><w:comment w:id="0"><w:p><w:r><w:t>comment-secret</w:t></w:r></w:p>
</w:comment></w:comments>"""


def _docx(body: str, **parts: str) -> bytes:
    kinds = {"styles": _STYLES, "numbering": _NUMBERING, "footnotes": _FOOTNOTES, **parts}
    relations = "".join(
        f'<Relationship Id="i{kind}" Type="{_RELATED}/{kind}" Target="{kind}.xml"/>'
        for kind in (*kinds, "comments")
    )
    relations += (
        f'<Relationship Id="link" Type="{_RELATED}/hyperlink" TargetMode="External" '
        'Target="https://e.org/q?a=1&amp;b=2"/>'
        f'<Relationship Id="image" Type="{_RELATED}/image" TargetMode="External" '
        'Target="http://127.0.0.1:9/tracker.png"/>'
    )
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    return zipped(
        {
            "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": (
                f'<Relationships xmlns="{package}">{relations}</Relationships>'
            ),
            "word/comments.xml": _COMMENTS,
            **{f"word/{kind}.xml": text for kind, text in kinds.items()},
        }
    )


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _paragraph(text: str, properties: str = "") -> str:
    runs = text if text.startswith("<") else _run(text)
    return f"<w:p><w:pPr>{properties}</w:pPr>{runs}</w:p>"


def _table(*rows: tuple[str, ...]) -> str:
    lines = (
        f"<w:tr>{''.join(f'<w:tc>{_paragraph(cell)}</w:tc>' for cell in row)}</w:tr>"
        for row in rows
    )
    return f"<w:tbl>{''.join(lines)}</w:tbl>"


def _text(body: str, **parts: str) -> str:
    return text_of(convert, _docx(body, **parts))


def test_a_document_is_one_part() -> None:
    (part,) = parts_of(convert, _docx(_paragraph("fact")))
    assert (part.data, part.number, part.total) == ("fact\n", 1, 1)
    assert parts_of(convert, _docx(_paragraph("fact")), first=2) == []


def test_headings_have_their_levels_also_by_styles_that_are_based_on_them() -> None:
    text = _text(
        _paragraph("Top", '<w:pStyle w:val="H1"/>')
        + _paragraph("Inherited", '<w:pStyle w:val="Own"/>')
        + _paragraph("Outlined", '<w:outlineLvl w:val="2"/>')
        + _paragraph("Plain", '<w:pStyle w:val="Loop"/>')
    )
    assert text == "# Top\n\n## Inherited\n\n### Outlined\n\nPlain\n"


def test_lists_keep_their_numbers_and_levels() -> None:
    def item(text: str, level: int) -> str:
        return _paragraph(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="5"/></w:numPr>')

    text = _text(item("third", 0) + item("below", 1) + item("fourth", 0) + _paragraph("after"))
    assert text == "3. third\n   - below\n4. fourth\n\nafter\n"


def test_cells_of_tables_stay_with_their_headers() -> None:
    text = _text(_table(("City", "Height"), ("La Paz", "3,640 | m"), ("Lhasa", "3,656")))
    assert text == "| City | Height |\n| --- | --- |\n| La Paz | 3,640 \\| m |\n| Lhasa | 3,656 |\n"


def test_merged_cells_do_not_shift_columns() -> None:
    cells = (
        '<w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>'
        + _paragraph("ab")
        + "</w:tc><w:tc>"
        + _paragraph("c")
        + "</w:tc></w:tr>"
    )
    rows = "<w:tr>" + "".join(f"<w:tc>{_paragraph(cell)}</w:tc>" for cell in "123") + "</w:tr>"
    assert "| ab |  | c |" in _text(f"<w:tbl>{cells}{rows}</w:tbl>")


def test_cells_of_several_paragraphs_stay_one_row() -> None:
    cell = f"<w:tc>{_paragraph('one')}{_paragraph('two')}{_table(('in', 'ner'))}</w:tc>"
    text = _text(f"<w:tbl><w:tr>{cell}<w:tc>{_paragraph('x')}</w:tc></w:tr></w:tbl>")
    (line,) = [line for line in text.splitlines() if "one" in line]
    assert line.startswith("| one")
    assert line.endswith("| x |")
    assert "two" in line
    assert "ner" in line


def test_links_keep_their_targets() -> None:
    field = (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        '<w:r><w:instrText> HYPERLINK "https://e.org/field" </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        + _run("by field")
        + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    text = _text(f'<w:p><w:hyperlink r:id="link">{_run("by id")}</w:hyperlink> {field}</w:p>')
    assert "[by id](https://e.org/q?a=1&b=2)" in text
    assert "[by field](https://e.org/field)" in text
    assert "HYPERLINK" not in text


def test_footnotes_follow_the_text() -> None:
    text = _text(f'<w:p>{_run("claim")}<w:r><w:footnoteReference w:id="2"/></w:r></w:p>')
    assert text == "claim[^1]\n\n[^1]: note-fact\n"


def test_formats_of_text_are_kept_and_joined() -> None:
    runs = (
        _run("bo", "<w:b/>"),
        _run("ld", "<w:b/>"),
        _run(" and "),
        _run("italic", "<w:i/>"),
        _run(" not", '<w:b w:val="0"/>'),
    )
    text = _text(f"<w:p>{''.join(runs)}</w:p>")
    assert text == "**bold** and *italic* not\n"


def test_tracked_deletions_and_hidden_text_are_absent() -> None:
    text = _text(
        "<w:p>"
        + _run("kept ")
        + "<w:del><w:r><w:delText>deleted-1</w:delText></w:r></w:del>"
        + f"<w:del>{_run('deleted-2')}</w:del>"
        + f"<w:moveFrom>{_run('moved-1')}</w:moveFrom>"
        + f"<w:ins>{_run('inserted')}</w:ins>"
        + _run("hidden-1", "<w:vanish/>")
        + _run("hidden-2", '<w:rStyle w:val="Gone"/>')
        + '<w:commentRangeStart w:id="0"/>'
        + _run(" end")
        + '<w:commentRangeEnd w:id="0"/><w:r><w:commentReference w:id="0"/></w:r></w:p>'
        + "<w:tbl><w:tr><w:trPr><w:del/></w:trPr><w:tc>"
        + _paragraph("deleted-3")
        + "</w:tc></w:tr><w:tr><w:tc>"
        + _paragraph("cell")
        + "</w:tc></w:tr></w:tbl>"
    )
    assert "kept inserted end" in text
    assert "cell" in text
    for absent in ("deleted-", "moved-", "hidden-"):
        assert absent not in text


def test_a_paragraph_whose_end_is_deleted_goes_on_in_the_next() -> None:
    text = _text(
        f"<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr>{_run('one ')}</w:p>{_paragraph('two')}"
    )
    assert text == "one two\n"


def test_text_of_boxes_and_descriptions_of_pictures_are_kept_once() -> None:
    box = f"<w:txbxContent>{_paragraph('boxed')}</w:txbxContent>"
    text = _text(
        f"<w:p>{_run('before')}<w:r><mc:AlternateContent><mc:Choice><w:drawing>{box}</w:drawing>"
        f"</mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
        '<w:r><w:drawing><wp:inline><wp:docPr descr="a chart"/></wp:inline></w:drawing></w:r></w:p>'
    )
    assert text.count("boxed") == 1
    assert "[Image: a chart]" in text.replace("\\", "")


def test_markup_in_the_text_stays_text() -> None:
    text = _text(_paragraph("a &lt;script&gt;b&lt;/script&gt; &amp;lt; c"))
    assert "<script>" in text.replace("\\", "").replace("&lt;", "<").replace("&gt;", ">")
    assert "b" in text


def test_content_controls_and_formulas_are_read() -> None:
    text = _text(
        f"<w:sdt><w:sdtContent>{_paragraph('controlled')}</w:sdtContent></w:sdt>"
        "<w:p><m:oMath><m:r><m:t>e=mc</m:t></m:r></m:oMath></w:p>"
    )
    assert "controlled" in text
    assert "e=mc" in text


def test_a_document_without_text_says_so() -> None:
    assert _text("<w:p/>") == "[The document has no text.]\n"


_BOMBS = xml_bombs("document")


@pytest.mark.parametrize("name", list(_BOMBS))
def test_hostile_xml_is_refused(name: str) -> None:
    for members in (
        {"word/document.xml": _BOMBS[name]},
        {"word/document.xml": f"<a {_W}/>", "word/_rels/document.xml.rels": _BOMBS[name]},
    ):
        with pytest.raises(ConversionError):
            text_of(convert, zipped(members))


def test_raised_text_is_not_joined_to_the_number_before_it() -> None:
    raised = '<w:vertAlign w:val="superscript"/>'
    runs = _run("10") + _run("1", raised) + _run("2", raised) + _run("m")
    assert _text(f"<w:p>{runs}</w:p>") == "10<sup>12</sup>m\n"


def test_ruby_follows_its_text_once() -> None:
    base, above = _run("漢字"), _run("かんじ")
    ruby = f"<w:ruby><w:rubyPr/><w:rt>{above}</w:rt><w:rubyBase>{base}</w:rubyBase></w:ruby>"
    assert _text(f"<w:p>{_run('a')}<w:r>{ruby}</w:r>{_run('b')}</w:p>") == "a漢字(かんじ)b\n"


def _hostile() -> Mapping[str, bytes]:
    spans = '<w:tc><w:tcPr><w:gridSpan w:val="999999999"/></w:tcPr><w:p/></w:tc>'
    return {
        "wide": _docx(f"<w:tbl><w:tr>{spans}</w:tr><w:tr>{spans * 3}</w:tr></w:tbl>"),
        "ends of fields": _docx('<w:p><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>' * 99),
        "fields": _docx(
            "<w:p>" + '<w:r><w:fldChar w:fldCharType="begin"/></w:r>' * 2_000 + _run("x") + "</w:p>"
        ),
        "notes in notes": _docx(
            '<w:p><w:r><w:footnoteReference w:id="2"/></w:r></w:p>',
            footnotes=_FOOTNOTES.replace("<w:footnoteRef/>", '<w:footnoteReference w:id="2"/>'),
        ),
        "tables in tables": _docx(
            "<w:tbl><w:tr><w:tc>" * 60 + "<w:p/>" + "</w:tc></w:tr></w:tbl>" * 60
        ),
        "empty": zipped({}),
        "a bomb": zipped({"word/document.xml": bytes(50_000_000)}),
    }


@pytest.mark.parametrize("name", list(_hostile()))
def test_hostile_documents_end_with_little_text(name: str) -> None:
    with suppress(ConversionError):
        assert len(text_of(convert, _hostile()[name])) < 10_000


def test_damaged_documents_raise_nothing_but_conversion_errors() -> None:
    document = _docx(_paragraph("a") + _table(("b", "c")))
    for data in damaged_archives(document, count=300, of_each=60):
        with suppress(ConversionError):
            text_of(convert, data)


def test_a_confined_worker_converts_and_outlives_hostile_documents() -> None:
    good = _docx(_paragraph("Top", '<w:pStyle w:val="H1"/>') + _table(("a", "b"), ("1", "2")))
    hostile = list(_hostile().values())
    results = pooled("resource_server.conversion.formats.word:convert", [good, *hostile, good])
    assert isinstance(results[0], Conversion)
    assert results[0].parts[0].data == text_of(convert, good)
    assert results[-1] == results[0]


def test_a_chart_in_the_text_is_a_table() -> None:
    chart = "http://schemas.openxmlformats.org/drawingml/2006/chart"
    body = (
        f'<w:p><w:r><w:drawing><c:chart xmlns:c="{chart}" r:id="ichart"/></w:drawing></w:r></w:p>'
    )
    points = '<c:pt idx="0"><c:v>{}</c:v></c:pt>'
    text = _text(
        body,
        chart=f'<c:chartSpace xmlns:c="{chart}"><c:ser><c:tx>{points.format("North")}</c:tx>'
        f"<c:cat>{points.format('Q1')}</c:cat><c:val>{points.format(7)}</c:val></c:ser>"
        "</c:chartSpace>",
    )
    assert "|  | North |\n| --- | --- |\n| Q1 | 7 |\n" in text


_PICTURE = (
    '<w:r><w:drawing><wp:inline><wp:docPr id="1" descr="a plan"/><a:blip xmlns:a="a"/></wp:inline>'
    "</w:drawing></w:r>"
)


def test_a_document_is_a_picture_if_it_shows_some_and_no_text() -> None:
    bodies = (f"<w:p>{_PICTURE}{_PICTURE}</w:p>", f"<w:p>{_PICTURE}{_run('fact')}</w:p>", "")
    parts = [part for body in bodies for part in parts_of(convert, _docx(body))]
    assert [part.is_picture for part in parts] == [True, False, False]
