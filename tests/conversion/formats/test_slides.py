"""PPTX and ODP as Markdown, slide by slide."""

from __future__ import annotations

from contextlib import suppress

import pytest

from resource_server.conversion.formats.slides import convert
from resource_server.conversion.pool import Conversion
from resource_server.errors import ConversionError
from tests.cases import for_each
from tests.conversion.formats.damaged import damaged_archives
from tests.conversion.formats.zipped import parts_of, pooled, text_of, unzipped, xml_bombs, zipped

_OFFICE = "http://schemas.openxmlformats.org/"
_RELATED = f"{_OFFICE}officeDocument/2006/relationships"
_PACKAGE = f"{_OFFICE}package/2006/relationships"
_NAMES = (
    f'xmlns:p="{_OFFICE}presentationml/2006/main" xmlns:a="{_OFFICE}drawingml/2006/main" '
    f'xmlns:r="{_RELATED}"'
)


def _shape(text: str, kind: str = "", *, hidden: bool = False, properties: str = "") -> str:
    paragraphs = "".join(
        f"<a:p><a:pPr {properties}/><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n")
    )
    placeholder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else ""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr hidden="{int(hidden)}"/>{placeholder}</p:nvSpPr>'
        f"<p:txBody>{paragraphs}</p:txBody></p:sp>"
    )


def _slide(*shapes: str, attributes: str = "") -> str:
    return (
        f"<p:sld {_NAMES} {attributes}><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld>"
        "</p:sld>"
    )


def _relations(*entries: tuple[str, str, str]) -> str:
    found = "".join(
        f'<Relationship Id="{name}" Type="{_RELATED}/{kind}" Target="{target}" '
        f'TargetMode="{"External" if "://" in target else "Internal"}"/>'
        for name, kind, target in entries
    )
    return f'<Relationships xmlns="{_PACKAGE}">{found}</Relationships>'


_CELLS = "".join(
    f"<a:tr>{''.join(f'<a:tc><a:txBody><a:p><a:r><a:t>{c}</a:t></a:r></a:p></a:txBody></a:tc>' for c in row)}</a:tr>"  # noqa: E501
    for row in (("City", "Height"), ("La Paz", "3,640"))
)
_LINK = (
    '<p:sp><p:txBody><a:p><a:r><a:rPr><a:hlinkClick r:id="l"/></a:rPr><a:t>the page</a:t></a:r>'
    "</a:p></p:txBody></p:sp>"
)


def _pptx() -> bytes:
    """Return slides that are not in the order of their names; the last one is hidden."""
    return zipped(
        {
            "ppt/presentation.xml": f'<p:presentation {_NAMES}><p:sldIdLst><p:sldId r:id="r2"/>'
            '<p:sldId r:id="r1"/></p:sldIdLst></p:presentation>',
            "ppt/_rels/presentation.xml.rels": _relations(
                ("r1", "slide", "slides/slide1.xml"), ("r2", "slide", "slides/slide2.xml")
            ),
            "ppt/slides/slide1.xml": _slide(_shape("Last", "title"), attributes='show="0"'),
            "ppt/slides/slide2.xml": _slide(
                _shape("First", "ctrTitle"),
                _shape("point", "body"),
                _shape("below", "body", properties='lvl="1"'),
                f"<p:grpSp>{_shape('grouped')}</p:grpSp>",
                _shape("hidden-1", hidden=True),
                _shape("footer-1", "ftr"),
                _LINK,
                f"<p:graphicFrame><a:tbl>{_CELLS}</a:tbl></p:graphicFrame>",
                '<p:pic><p:nvPicPr><p:cNvPr descr="a chart"/></p:nvPicPr></p:pic>',
            ),
            "ppt/slides/_rels/slide2.xml.rels": _relations(
                ("n", "notesSlide", "../notesSlides/n.xml"), ("l", "hyperlink", "https://e.org/")
            ),
            "ppt/notesSlides/n.xml": _slide(_shape("note-fact", "body"), _shape("7", "sldNum")),
        }
    )


def test_slides_come_in_the_order_of_the_presentation() -> None:
    first, last = parts_of(convert, _pptx())
    assert str(first.data).startswith("## Slide 1\n\n### First\n\n")
    assert last.data == "## Slide 2 (hidden)\n\n### Last\n"
    assert [(part.number, part.total) for part in (first, last)] == [(1, 2), (2, 2)]
    assert parts_of(convert, _pptx(), first=2, last=9) == [last]


def test_lists_groups_tables_links_pictures_and_notes_are_kept() -> None:
    text = str(parts_of(convert, _pptx())[0].data)
    for fact in (
        "- point\n  - below\n",
        "grouped",
        "[the page](https://e.org/)",
        "| City | Height |\n| --- | --- |\n| La Paz | 3,640 |\n",
        "Image: a chart",
    ):
        assert fact in text
    assert text.endswith("#### Notes\n\nnote-fact\n")


def test_hidden_shapes_are_absent() -> None:
    assert "hidden-" not in text_of(convert, _pptx())


_ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "style": "style",
        "draw": "drawing",
        "presentation": "presentation",
    }.items()
)


def _frame(text: str, kind: str) -> str:
    return (
        f'<draw:frame presentation:class="{kind}"><draw:text-box><text:p>{text}</text:p>'
        "</draw:text-box></draw:frame>"
    )


def _odp() -> bytes:
    table = (
        "<draw:frame><table:table><table:table-row><table:table-cell><text:p>k</text:p>"
        "</table:table-cell><table:table-cell><text:p>v</text:p></table:table-cell>"
        "</table:table-row></table:table></draw:frame>"
    )
    return zipped(
        {
            "content.xml": f"<office:document-content {_ODF}><office:automatic-styles>"
            '<style:style style:name="h" style:family="drawing-page">'
            '<style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
            "</office:automatic-styles><office:body><office:presentation><draw:page>"
            f"{_frame('Title', 'title')}{_frame('point', 'outline')}{_frame('foot-1', 'footer')}"
            f"{table}<presentation:notes>{_frame('note-fact', 'notes')}</presentation:notes>"
            '</draw:page><draw:page draw:style-name="h"/></office:presentation></office:body>'
            "</office:document-content>"
        }
    )


def test_an_odp_keeps_titles_text_tables_and_notes() -> None:
    first, last = parts_of(convert, _odp())
    text = str(first.data)
    assert text.startswith("## Slide 1\n\n### Title\n\npoint")
    assert "| k | v |" in text
    assert text.endswith("#### Notes\n\nnote-fact\n")
    assert "[Footer: foot-1]" in text
    assert last.data == "## Slide 2 (hidden)\n\n[This slide has no text.]\n"


_BOMBS = xml_bombs("p")


@for_each("name", list(_BOMBS))
def test_hostile_xml_is_refused(name: str) -> None:
    for member in ("ppt/presentation.xml", "ppt/slides/slide2.xml", "ppt/notesSlides/n.xml"):
        with pytest.raises(ConversionError):
            text_of(convert, zipped({**unzipped(_pptx()), member: _BOMBS[name]}))
    with pytest.raises(ConversionError):
        text_of(convert, zipped({"content.xml": _BOMBS[name]}))


@for_each("document", [_pptx(), _odp()])
def test_damaged_presentations_raise_nothing_but_conversion_errors(document: bytes) -> None:
    for data in damaged_archives(document, count=200, of_each=50):
        with suppress(ConversionError):
            text_of(convert, data)


def test_a_confined_worker_converts_presentations() -> None:
    bomb = zipped({"ppt/presentation.xml": bytes(50_000_000)})
    results = pooled("resource_server.conversion.formats.slides:convert", [_pptx(), bomb, _odp()])
    assert isinstance(results[0], Conversion)
    assert list(results[0].parts) == parts_of(convert, _pptx())
    assert isinstance(results[1], ConversionError)
    assert isinstance(results[2], Conversion)


def test_a_slide_is_a_picture_if_it_shows_one_and_no_text() -> None:
    picture = "<p:pic><p:nvPicPr><p:cNvPr/></p:nvPicPr><p:blipFill><a:blip/></p:blipFill></p:pic>"
    for shapes, is_picture in (((picture,), True), ((picture, _shape("x")), False), ((), False)):
        members = {**unzipped(_pptx()), "ppt/slides/slide1.xml": _slide(*shapes)}
        *_, last = parts_of(convert, zipped(members))
        assert last.is_picture is is_picture
