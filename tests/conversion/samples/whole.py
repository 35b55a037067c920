"""Documents with a fact in every part that their format has beside its text."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import quoteattr

from tests.conversion.facts import Absent, Cell, Fact, Heading, Link, Ordered, Placed, Text
from tests.conversion.formats.zipped import unzipped, zipped
from tests.conversion.portable import pdf_of
from tests.conversion.xls import xls

_OFFICE = "http://schemas.openxmlformats.org"
_RELATED = f"{_OFFICE}/officeDocument/2006/relationships"
_MICROSOFT = "http://schemas.microsoft.com/office"
_NAMES = " ".join(
    f'xmlns:{prefix}="{uri}"'
    for prefix, uri in {
        "w": f"{_OFFICE}/wordprocessingml/2006/main",
        "p": f"{_OFFICE}/presentationml/2006/main",
        "x": f"{_OFFICE}/spreadsheetml/2006/main",
        "a": f"{_OFFICE}/drawingml/2006/main",
        "wp": f"{_OFFICE}/drawingml/2006/wordprocessingDrawing",
        "xdr": f"{_OFFICE}/drawingml/2006/spreadsheetDrawing",
        "c": f"{_OFFICE}/drawingml/2006/chart",
        "dgm": f"{_OFFICE}/drawingml/2006/diagram",
        "cx": f"{_MICROSOFT}/drawing/2014/chartex",
        "xt": f"{_MICROSOFT}/spreadsheetml/2018/threadedcomments",
        "pt": f"{_MICROSOFT}/powerpoint/2018/8/main",
        "r": _RELATED,
        "v": "urn:schemas-microsoft-com:vml",
        "o": "urn:schemas-microsoft-com:office:office",
    }.items()
)


def documents() -> Mapping[str, tuple[bytes, tuple[Fact, ...]]]:
    """Return documents and their facts by file name."""
    return {
        "whole.docx": (_docx(), _DOCX_FACTS),
        "whole.xlsx": (_xlsx(), _XLSX_FACTS),
        "whole.pptx": (_pptx(), _PPTX_FACTS),
        "whole.xls": (_xls(), _XLS_FACTS),
        "whole.odt": (_odf("text", _ODT), _ODT_FACTS),
        "whole.ods": (_odf("spreadsheet", _ODS), _ODS_FACTS),
        "whole.odp": (_odf("presentation", _ODP), _ODP_FACTS),
        "cells.xlsb": (xlsb({0: ("who", "amount"), 1: ("row one", 17.0)}), _XLSB_FACTS),
        "whole.pdf": (_pdf(), _PDF_FACTS),
        "obsolete.eml": (_OBSOLETE, _OBSOLETE_FACTS),
        "report.eml": (_REPORT, _REPORT_FACTS),
        "receipt.eml": (_RECEIPT, _RECEIPT_FACTS),
        "page.mht": (_MHT, _MHT_FACTS),
        "whole.odg": (_odf("drawing", _ODG), (*_SHAPE_FACTS, Placed("Slide 2", "the end"))),
        "whole.fodt": (_flat("text", _ODT), _ODT_FACTS[:-1]),
        "whole.fods": (_flat("spreadsheet", _ODS), _ODS_FACTS[:-1]),
        "whole.fodp": (_flat("presentation", _ODP), _ODP_FACTS),
    }


def _package(
    main: str, parts: Mapping[str, str], relations: Mapping[str, Sequence[tuple[str, str]]]
) -> bytes:
    """Return parts with their relations `r1` and so on, each of a kind and a target."""
    members = {name: f"<{text.replace(' ', f' {_NAMES} ', 1)}" for name, text in parts.items()}
    for part, targets in {"": [("officeDocument", main)], **relations}.items():
        folder, _, base = part.rpartition("/")
        each = "".join(
            f'<Relationship Id="r{at}" Type="{_RELATED}/{kind}" Target={quoteattr(target)} '
            f'TargetMode="{"External" if "://" in target else "Internal"}"/>'
            for at, (kind, target) in enumerate(targets, 1)
        )
        members[f"{folder}/_rels/{base}.rels".lstrip("/")] = (
            f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">{each}</Relationships>'
        )
    return zipped(members)


def _chart(title: str) -> str:
    return (
        f"c:chartSpace ><c:chart><c:title><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:title>"
        "<c:ser><c:tx><c:pt idx='0'><c:v>North</c:v></c:pt></c:tx><c:cat><c:pt idx='0'>"
        "<c:v>Q1</c:v></c:pt></c:cat><c:val><c:pt idx='0'><c:v>120.5</c:v></c:pt></c:val></c:ser>"
        "<c:valAx><c:title><a:t>in millions</a:t></c:title></c:valAx></c:chart></c:chartSpace>"
    )


_NEW_CHART = (
    "cx:chartSpace ><cx:chartData><cx:data id='0'><cx:strDim type='cat'><cx:lvl>"
    "<cx:pt idx='0'>Opening</cx:pt></cx:lvl></cx:strDim><cx:numDim type='val'><cx:lvl>"
    "<cx:pt idx='0'>77.25</cx:pt></cx:lvl></cx:numDim></cx:data></cx:chartData><cx:chart><cx:title>"
    "<a:t>Waterfall</a:t></cx:title><cx:series><cx:tx><cx:v>Balance</cx:v></cx:tx>"
    "<cx:dataId val='0'/></cx:series></cx:chart></cx:chartSpace>"
)


def _diagram(*texts: str) -> str:
    """Return a diagram whose nodes are below each other."""
    points = "".join(
        f'<dgm:pt modelId="{at}"><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>'
        for at, text in enumerate(texts, 1)
    )
    links = "".join(
        f'<dgm:cxn srcId="{at}" destId="{at + 1}" srcOrd="0"/>' for at in range(len(texts))
    )
    return (
        f'dgm:dataModel ><dgm:ptLst><dgm:pt modelId="0" type="doc"/>{points}</dgm:ptLst>'
        f"<dgm:cxnLst>{links}</dgm:cxnLst></dgm:dataModel>"
    )


_DIAGRAM_FACTS = (Text("- the head of it"), Text("  - the part below"))


# DOCX

_DOCX_FACTS = (
    Ordered(("first paragraph", "Comment by Ada & Co: [a doubt](", "second paragraph")),
    Link("https://example.com/doubt", "a doubt"),
    Ordered(("| in the table [Comment by Bo: a remark on the cell] |", "box paragraph")),
    Ordered(("box paragraph", "text in the box", "after the box")),
    Text("text of WordArt"),
    Text("[Image: a harbour at night]"),
    Text("[Image not shown]"),
    Text("[Embedded object not shown: Excel.Sheet.12]"),
    Text("[Embedded document not shown]"),
    Text("[Chart: Turnover; in millions]"),
    Cell("Q1", "North", "120.5"),
    Text("[Chart: Waterfall]"),
    Cell("Opening", "Balance", "77.25"),
    *_DIAGRAM_FACTS,
    Ordered(("a footnote", "an endnote", "Headers and footers", "the running header")),
    Text("Footer: the footer"),
    Text("Header: the header of even pages"),
    Text("inserted sentence"),
    Text("moved here"),
    Absent("deleted sentence"),
    Absent("moved away"),
    Absent("invisible ink"),
    Absent("comment on deleted words"),
    Absent("header of the first page"),
    Absent("Footer: Page"),
)


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _paragraph(content: str) -> str:
    return f"<w:p>{content if content.startswith('<') else _run(content)}</w:p>"


def _graphic(content: str, about: str = "") -> str:
    return (
        f"<w:r><w:drawing><wp:inline><wp:docPr {about}/><a:graphic><a:graphicData>{content}"
        "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    )


def _commented(text: str, number: int) -> str:
    return f'{_run(text)}<w:r><w:commentReference w:id="{number}"/></w:r>'


def _docx() -> bytes:
    body = (
        _paragraph(
            _commented("first paragraph", 0)
            + f"<w:ins>{_run('inserted sentence')}</w:ins><w:moveTo>{_run('moved here')}</w:moveTo>"
            "<w:del><w:r><w:delText>deleted sentence</w:delText></w:r>"
            '<w:r><w:commentReference w:id="2"/></w:r></w:del>'
            f"<w:moveFrom>{_run('moved away')}</w:moveFrom>{_run('invisible ink', '<w:vanish/>')}"
            '<w:r><w:footnoteReference w:id="1"/></w:r><w:r><w:endnoteReference w:id="1"/></w:r>'
        )
        + _paragraph("second paragraph")
        + f"<w:tbl><w:tr><w:tc>{_paragraph('who')}</w:tc><w:tc>{_paragraph('what')}</w:tc></w:tr>"
        f"<w:tr><w:tc>{_paragraph(_commented('in the table', 1))}</w:tc><w:tc><w:p/></w:tc></w:tr>"
        "</w:tbl>"
        + _paragraph(
            _run("box paragraph")
            + f"<w:r><w:pict><v:shape><v:textbox><w:txbxContent>{_paragraph('text in the box')}"
            "</w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
        )
        + _paragraph("after the box")
        + _paragraph(
            '<w:r><w:pict><v:shape><v:textpath string="text of WordArt"/></v:shape></w:pict></w:r>'
        )
        + _paragraph(
            _graphic("<a:blip/>", 'descr="a harbour at night"') + _graphic("<a:blip/>", 'id="3"')
        )
        + _paragraph('<w:r><w:object><o:OLEObject ProgID="Excel.Sheet.12"/></w:object></w:r>')
        + '<w:altChunk r:id="r99"/>'
        + _paragraph(_graphic('<c:chart r:id="r5"/>'))
        + _paragraph(_graphic('<cx:chart r:id="r6"/>'))
        + _paragraph(_graphic('<dgm:relIds r:dm="r7"/>'))
        + '<w:sectPr><w:headerReference w:type="default" r:id="r8"/><w:headerReference '
        'w:type="first" r:id="r9"/><w:headerReference w:type="even" r:id="r10"/>'
        '<w:footerReference w:type="default" r:id="r11"/><w:footerReference w:type="even" '
        'r:id="r12"/></w:sectPr>'
    )

    def notes(kind: str, text: str) -> str:
        return f'w:{kind}s ><w:{kind} w:id="1">{_paragraph(text)}</w:{kind}></w:{kind}s>'

    comments = "".join(
        f'<w:comment w:id="{at}" w:author="{author}">{_paragraph(text)}</w:comment>'
        for at, (author, text) in enumerate(
            (
                (
                    "Ada &amp; Co",
                    f'<w:hyperlink r:id="r1">{_run("a doubt")}</w:hyperlink>',
                ),
                ("Bo", "a remark on the cell"),
                ("Cy", "comment on deleted words"),
            )
        )
    )
    page = '<w:fldSimple w:instr="PAGE"><w:r><w:t>1</w:t></w:r></w:fldSimple>'
    margins = {
        "header1": ("hdr", _paragraph("the running header")),
        "header2": ("hdr", _paragraph("header of the first page")),
        "header3": ("hdr", _paragraph("the header of even pages")),
        "footer1": ("ftr", _paragraph(_run("the footer ") + page)),
        "footer2": ("ftr", _paragraph(_run("Page ") + page)),
    }
    return _package(
        "word/document.xml",
        {
            "word/document.xml": f"w:document ><w:body>{body}</w:body></w:document>",
            "word/comments.xml": f"w:comments >{comments}</w:comments>",
            "word/footnotes.xml": notes("footnote", "a footnote"),
            "word/endnotes.xml": notes("endnote", "an endnote"),
            "word/settings.xml": "w:settings ><w:evenAndOddHeaders/></w:settings>",
            "word/charts/chart1.xml": _chart("Turnover"),
            "word/charts/chartEx1.xml": _NEW_CHART,
            "word/diagrams/data1.xml": _diagram("the head of it", "the part below"),
            **{
                f"word/{name}.xml": f"w:{tag} >{text}</w:{tag}>"
                for name, (tag, text) in margins.items()
            },
        },
        {
            "word/document.xml": [
                *(("comments", "comments.xml"), ("footnotes", "footnotes.xml")),
                *(("endnotes", "endnotes.xml"), ("settings", "settings.xml")),
                *(("chart", "charts/chart1.xml"), ("chartEx", "charts/chartEx1.xml")),
                ("diagramData", "diagrams/data1.xml"),
                *((name[:6], f"{name}.xml") for name in margins),
            ],
            "word/comments.xml": [("hyperlink", "https://example.com/doubt")],
        },
    )


# XLSX

_XLSX_FACTS = (
    Cell("row one", "amount", "17"),
    Text("B2 (Ada): too high?"),
    Text("C3 (Bo Q.): please check"),
    Text("done since"),
    Absent("Your version of Excel"),
    Ordered(("Comments", "Drawings", "At D5:", "text of a box", "Links", "Header and footer")),
    Text("[Chart: Turnover; in millions]"),
    Cell("Q1", "North", "120.5"),
    *_DIAGRAM_FACTS,
    Text("[Image: a map]"),
    Text("A2: <https://example.com/?a=1&b=2>"),
    Text("Header: left & right | the middle"),
    Absent("Footer"),
    Placed("Trend", "[Chart: Over the years; in millions]"),
)


def _xlsx() -> bytes:
    def text(ref: str, index: int) -> str:
        return f'<x:c r="{ref}" t="s"><x:v>{index}</x:v></x:c>'

    sheet = (
        f'x:worksheet ><x:sheetData><x:row r="1">{text("A1", 0)}{text("B1", 1)}</x:row>'
        f'<x:row r="2">{text("A2", 2)}<x:c r="B2"><x:v>17</x:v></x:c></x:row></x:sheetData>'
        '<x:hyperlinks><x:hyperlink ref="A2" r:id="r4"/></x:hyperlinks><x:headerFooter>'
        "<x:oddHeader>&amp;L&amp;&quot;Arial,Bold&quot;&amp;12left &amp;&amp; right&amp;Cthe "
        "middle</x:oddHeader><x:oddFooter>Page &amp;P of &amp;N</x:oddFooter></x:headerFooter>"
        "</x:worksheet>"
    )
    shared = "".join(f"<x:si><x:t>{each}</x:t></x:si>" for each in ("who", "amount", "row one"))
    thread = "[Threaded comment] Your version of Excel allows you to read this. Comment: check"

    def anchor(content: str) -> str:
        return (
            "<xdr:twoCellAnchor><xdr:from><xdr:col>3</xdr:col><xdr:row>4</xdr:row></xdr:from>"
            f"{content}</xdr:twoCellAnchor>"
        )

    def frame(content: str) -> str:
        return anchor(
            f"<xdr:graphicFrame><a:graphic><a:graphicData>{content}</a:graphicData></a:graphic>"
            "</xdr:graphicFrame>"
        )

    charted = frame('<c:chart r:id="r1"/>')
    box = "<xdr:txBody><a:p><a:r><a:t>text of a box</a:t></a:r></a:p></xdr:txBody>"
    picture = '<xdr:nvPicPr><xdr:cNvPr descr="a map"/></xdr:nvPicPr><a:blip/>'
    return _package(
        "xl/workbook.xml",
        {
            "xl/workbook.xml": 'x:workbook ><x:sheets><x:sheet name="Data" r:id="r1"/>'
            '<x:sheet name="Trend" r:id="r2"/></x:sheets></x:workbook>',
            "xl/sharedStrings.xml": f"x:sst >{shared}</x:sst>",
            "xl/worksheets/sheet1.xml": sheet,
            "xl/chartsheets/sheet1.xml": 'x:chartsheet ><x:drawing r:id="r1"/></x:chartsheet>',
            "xl/comments1.xml": "x:comments ><x:authors><x:author>Ada</x:author><x:author>tc"
            '</x:author></x:authors><x:commentList><x:comment ref="B2" authorId="0"><x:text><x:r>'
            "<x:t>Ada:</x:t></x:r><x:r><x:t> too high?</x:t></x:r></x:text></x:comment><x:comment "
            f'ref="C3" authorId="1"><x:text><x:t>{thread}</x:t></x:text></x:comment>'
            "</x:commentList></x:comments>",
            "xl/threadedComments/threadedComment1.xml": "xt:ThreadedComments ><xt:threadedComment "
            'ref="C3" id="1" personId="p"><xt:text>please check</xt:text></xt:threadedComment>'
            '<xt:threadedComment ref="C3" id="2" parentId="1" personId="p"><xt:text>done since'
            "</xt:text></xt:threadedComment></xt:ThreadedComments>",
            "xl/persons/person.xml": 'xt:personList ><xt:person displayName="Bo Q." id="p"/>'
            "</xt:personList>",
            "xl/drawings/drawing1.xml": "xdr:wsDr >"
            + anchor(f"<xdr:grpSp><xdr:sp>{box}</xdr:sp></xdr:grpSp>")
            + charted
            + frame('<dgm:relIds r:dm="r2"/>')
            + anchor(f"<xdr:pic>{picture}</xdr:pic>")
            + "</xdr:wsDr>",
            "xl/drawings/drawing2.xml": f"xdr:wsDr >{charted}</xdr:wsDr>",
            "xl/charts/chart1.xml": _chart("Turnover"),
            "xl/charts/chart2.xml": _chart("Over the years"),
            "xl/diagrams/data1.xml": _diagram("the head of it", "the part below"),
        },
        {
            "xl/workbook.xml": [
                *(("worksheet", "worksheets/sheet1.xml"), ("chartsheet", "chartsheets/sheet1.xml")),
                *(("sharedStrings", "sharedStrings.xml"), ("person", "persons/person.xml")),
            ],
            "xl/worksheets/sheet1.xml": [
                ("comments", "../comments1.xml"),
                ("threadedComment", "../threadedComments/threadedComment1.xml"),
                ("drawing", "../drawings/drawing1.xml"),
                ("hyperlink", "https://example.com/?a=1&b=2"),
            ],
            "xl/chartsheets/sheet1.xml": [("drawing", "../drawings/drawing2.xml")],
            "xl/drawings/drawing1.xml": [
                ("chart", "../charts/chart1.xml"),
                ("diagramData", "../diagrams/data1.xml"),
            ],
            "xl/drawings/drawing2.xml": [("chart", "../charts/chart2.xml")],
        },
    )


# PPTX

_PPTX_FACTS = (
    Placed("Slide 1", "the head of it"),
    *_DIAGRAM_FACTS,
    Absent("This slide has no text"),
    Ordered(("Slide 1", "[Footer: the footer]", "Notes", "a pause here", "Comments", "Slide 2")),
    Placed("Slide 1", "Ada: an old comment"),
    Text("Bo: a new comment"),
    Text("Bo: its reply"),
    Ordered(("Slide 1", "text of the layout", "text of the master", "Slide 2")),
    Absent("Click to edit"),
    Placed("Slide 2", "[Chart: Waterfall]"),
    Cell("Opening", "Balance", "77.25"),
    Text("[Video not shown]"),
    Text("[Embedded object not shown: Word.Document.12]"),
    Text("[Image: another view]"),
    Absent("invisible shape"),
    Absent("17 of 20"),
)


def _shape(text: str, kind: str = "", about: str = "") -> str:
    placeholder = f'<p:ph type="{kind}"/>' if kind else ""
    return (
        f"<p:sp><p:nvSpPr><p:cNvPr {about}/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:txBody>"
        f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def _tree(tag: str, *shapes: str) -> str:
    return f"p:{tag} ><p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld></p:{tag}>"


def _frame(content: str) -> str:
    return (
        f"<p:graphicFrame><a:graphic><a:graphicData>{content}</a:graphicData></a:graphic>"
        "</p:graphicFrame>"
    )


_LAYOUT = ("slideLayout", "../slideLayouts/layout1.xml")


def _pptx() -> bytes:
    video = '<p:nvPicPr><p:cNvPr/><p:nvPr><a:videoFile r:link="r9"/></p:nvPr></p:nvPicPr>'
    view = '<p:pic><p:nvPicPr><p:cNvPr descr="another view"/></p:nvPicPr></p:pic>'
    fallback = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/'
        f'2006"><mc:Choice/><mc:Fallback>{view}</mc:Fallback></mc:AlternateContent>'
    )
    return _package(
        "ppt/presentation.xml",
        {
            "ppt/presentation.xml": 'p:presentation ><p:sldIdLst><p:sldId r:id="r1"/><p:sldId '
            'r:id="r2"/></p:sldIdLst></p:presentation>',
            "ppt/slides/slide1.xml": _tree(
                "sld",
                _frame('<dgm:relIds r:dm="r1"/>'),
                _shape("the footer", "ftr"),
                _shape("17 of 20", "sldNum"),
                _shape("invisible shape", about='hidden="1"'),
            ),
            "ppt/slides/slide2.xml": _tree(
                "sld",
                _frame('<cx:chart r:id="r1"/>'),
                _frame('<p:oleObj progId="Word.Document.12"/>'),
                f"<p:pic>{video}</p:pic>",
                fallback,
            ),
            "ppt/slideLayouts/layout1.xml": _tree(
                "sldLayout", _shape("text of the layout"), _shape("Click to edit", "title")
            ),
            "ppt/slideMasters/master1.xml": _tree("sldMaster", _shape("text of the master")),
            "ppt/notesSlides/notes1.xml": _tree("notes", _shape("a pause here", "body")),
            "ppt/comments/comment1.xml": 'p:cmLst ><p:cm authorId="0"><p:text>an old comment'
            "</p:text></p:cm></p:cmLst>",
            "ppt/comments/modern1.xml": 'pt:cmLst ><pt:cm authorId="{B}"><pt:replyLst><pt:reply '
            'authorId="{B}"><pt:txBody><a:p><a:r><a:t>its reply</a:t></a:r></a:p></pt:txBody>'
            "</pt:reply></pt:replyLst><pt:txBody><a:p><a:r><a:t>a new comment</a:t></a:r></a:p>"
            "</pt:txBody></pt:cm></pt:cmLst>",
            "ppt/commentAuthors.xml": 'p:cmAuthorLst ><p:cmAuthor id="0" name="Ada"/>'
            "</p:cmAuthorLst>",
            "ppt/authors.xml": 'pt:authorLst ><pt:author id="{B}" name="Bo"/></pt:authorLst>',
            "ppt/diagrams/data1.xml": _diagram("the head of it", "the part below"),
            "ppt/charts/chartEx1.xml": _NEW_CHART,
        },
        {
            "ppt/presentation.xml": [
                *(("slide", "slides/slide1.xml"), ("slide", "slides/slide2.xml")),
                *(("commentAuthors", "commentAuthors.xml"), ("authors", "authors.xml")),
            ],
            "ppt/slides/slide1.xml": [
                *(("diagramData", "../diagrams/data1.xml"),),
                *(("notesSlide", "../notesSlides/notes1.xml"), _LAYOUT),
                *(
                    ("comments", "../comments/comment1.xml"),
                    ("comments", "../comments/modern1.xml"),
                ),
            ],
            "ppt/slides/slide2.xml": [("chartEx", "../charts/chartEx1.xml"), _LAYOUT],
            "ppt/slideLayouts/layout1.xml": [("slideMaster", "../slideMasters/master1.xml")],
        },
    )


# XLS

_XLS_FACTS = (
    Cell("row one", "amount", "17"),
    Text("B2 (Ada): too high? in Zürich"),
    Text("text of a box"),
    Text("Header: the middle"),
    Text("[Charts of XLS workbooks are not shown]"),
)


def _xls() -> bytes:
    return xls(
        {"Data": {(0, 0): "who", (0, 1): "amount", (1, 0): "row one", (1, 1): 17.0}},
        comments={(1, 1): ("Ada", "Ada:\ntoo high? in Zürich")},
        boxes=("text of a box",),
        header="&C&14the middle",
        has_chart=True,
    )


# XLSB

_XLSB_FACTS = (
    Cell("row one", "amount", "17"),
    Placed("Data", "row one"),
    Text("[Comments and drawings of XLSB workbooks are not shown]"),
)


def xlsb(rows: Mapping[int, Sequence[str | float]]) -> bytes:
    """Return a binary workbook of one sheet with these rows, and with a part for comments."""

    def record(kind: int, data: bytes = b"") -> bytes:
        number = bytes([kind & 0x7F | 0x80, kind >> 7]) if kind > 0x7F else bytes([kind])
        return number + bytes([len(data)]) + data

    def string(text: str) -> bytes:
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    def row(at: int, *cells: str | float) -> bytes:
        head = record(0, struct.pack("<IIHBBBI", at, 0, 300, 0, 0, 0, 0))
        return head + b"".join(
            record(6, struct.pack("<II", column, 0) + string(cell))
            if isinstance(cell, str)
            else record(5, struct.pack("<IId", column, 0, cell))
            for column, cell in enumerate(cells)
        )

    entry = record(0x9C, struct.pack("<II", 0, 1) + string("r1") + string("Data"))
    extent = record(0x94, struct.pack("<4I", 0, 1, 0, 1))
    written = b"".join(row(at, *cells) for at, cells in rows.items())
    relations = {"xl/workbook.bin": [("worksheet", "worksheets/sheet1.bin")]}
    return zipped(
        {
            **unzipped(_package("xl/workbook.bin", {}, relations)),
            "xl/workbook.bin": b"".join(map(record, (0x83, 0x8F)))
            + entry
            + b"".join(map(record, (0x90, 0x9D, 0x84))),
            "xl/worksheets/sheet1.bin": record(0x81)
            + extent
            + record(0x91)
            + written
            + record(0x92)
            + record(0x82),
            "xl/comments1.bin": b"\0",
        }
    )


# OpenDocument

_ODF = " ".join(
    f'xmlns:{prefix}="{uri}"'
    for prefix, uri in {
        **{
            name: f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"
            for name in ("office", "text", "table", "style", "presentation", "chart")
        },
        "draw": "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0",
        "svg": "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0",
        "xlink": "http://www.w3.org/1999/xlink",
        "dc": "http://purl.org/dc/elements/1.1/",
    }.items()
)


def _annotation(author: str, text: str) -> str:
    return (
        f"<office:annotation><dc:creator>{author}</dc:creator><dc:date>2026-01-02</dc:date>"
        f"<text:p>{text}</text:p></office:annotation>"
    )


def _odf_row(*cells: str) -> str:
    each = "".join(f"<table:table-cell><text:p>{c}</text:p></table:table-cell>" for c in cells)
    return f"<table:table-row>{each}</table:table-row>"


_ODF_CHART = (
    "<office:body><office:chart><chart:chart><chart:title><text:p>Turnover</text:p></chart:title>"
    f"<table:table>{_odf_row('', 'North')}{_odf_row('Q1', '120.5')}</table:table></chart:chart>"
    "</office:chart></office:body>"
)
_OBJECT = '<draw:frame><draw:object xlink:href="./Object 1"/><draw:image/></draw:frame>'
_SHAPES = (
    "<draw:custom-shape><text:p>text of a shape</text:p></draw:custom-shape>"
    "<draw:frame><draw:text-box><text:p>text of a box</text:p></draw:text-box></draw:frame>"
    "<draw:frame><draw:image/><svg:desc>a harbour</svg:desc></draw:frame>"
)
_SHAPE_FACTS = (Text("text of a shape"), Text("text of a box"), Text("[Image: a harbour]"))
_CHART_FACTS = (Text("[Chart: Turnover]"), Cell("Q1", "North", "120.5"))
_MARGINS = (
    '<office:master-styles><style:master-page style:name="Standard"><style:header><text:p>'
    "the running header</text:p></style:header><style:footer><text:p>Page <text:page-number>1"
    "</text:page-number></text:p></style:footer><style:header-first style:display='false'><text:p>"
    "header of the first page</text:p></style:header-first><draw:custom-shape><text:p>text of the "
    "master</text:p></draw:custom-shape></style:master-page>"
    "</office:master-styles>"
)
_ODT = (
    "<text:tracked-changes><text:changed-region><text:deletion><text:p>deleted sentence</text:p>"
    "</text:deletion></text:changed-region></text:tracked-changes>"
    f"<text:p>first paragraph{_annotation('Ada', 'a doubt')}<text:change-start/>inserted sentence"
    "<text:change-end/><text:note text:note-class='endnote'><text:note-body><text:p>an endnote"
    f"</text:p></text:note-body></text:note></text:p><text:p>second paragraph</text:p>"
    f"<text:p>{_SHAPES}</text:p><text:p>{_OBJECT}</text:p>"
    f"<table:table>{_odf_row('who', 'what')}"
    f"{_odf_row('in the table' + _annotation('Bo', 'a remark'), '')}</table:table>"
    "<text:p>last paragraph</text:p>"
)
_ODT_FACTS = (
    Ordered(("first paragraph", "Comment by Ada: a doubt", "second paragraph")),
    Text("| in the table [Comment by Bo: a remark] |"),
    *_SHAPE_FACTS,
    Text("inserted sentence"),
    Absent("deleted sentence"),
    Ordered(("last paragraph", "an endnote", "Headers and footers", "the running header")),
    Absent("Footer"),
    Absent("header of the first page"),
    Ordered(("text of a shape", "[Chart: Turnover]", "120.5", "last paragraph")),
)
_ODS = (
    f'<table:table table:name="Data"><table:shapes>{_SHAPES}</table:shapes>'
    f"{_odf_row('who', 'amount')}<table:table-row><table:table-cell><text:p>row one</text:p>"
    '</table:table-cell><table:table-cell office:value-type="float" office:value="17">'
    f"{_annotation('Ada', 'too high?')}<text:p>17</text:p></table:table-cell></table:table-row>"
    '<table:table-row table:number-rows-repeated="3"/><table:table-row><table:table-cell '
    f'table:number-columns-repeated="3"/><table:table-cell>{_OBJECT}</table:table-cell>'
    "</table:table-row></table:table>"
)
_ODS_FACTS = (
    Cell("row one", "amount", "17"),
    Text("B2 (Ada): too high?"),
    *_SHAPE_FACTS,
    Text("Header: the running header"),
    Absent("Footer"),
    Ordered(("Comments", "Drawings", "At D6:", "[Chart: Turnover]", "120.5", "Header and footer")),
)
_ODP = (
    '<presentation:footer-decl presentation:name="f1">the footer</presentation:footer-decl>'
    f'<draw:page presentation:use-footer-name="f1" '
    f'draw:master-page-name="Standard">{_SHAPES}{_annotation("Ada", "a doubt")}'
    '<presentation:notes><draw:frame presentation:class="notes"><draw:text-box><text:p>'
    "a pause here</text:p></draw:text-box></draw:frame><draw:frame "
    'presentation:class="page-number"><draw:text-box><text:p>17 of 20</text:p></draw:text-box>'
    "</draw:frame></presentation:notes></draw:page><draw:page><text:p>the end</text:p></draw:page>"
)
_ODP_FACTS = (
    *_SHAPE_FACTS,
    Ordered(("Slide 1", "[Footer: the footer]", "a pause here", "Comments", "Slide 2", "the end")),
    Placed("Slide 1", "Ada: a doubt"),
    Placed("Slide 1", "text of the master"),
    Absent("17 of 20"),
)
_ODG = f"<draw:page>{_SHAPES}</draw:page><draw:page><text:p>the end</text:p></draw:page>"


def _odf(kind: str, body: str) -> bytes:
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_ODF}><office:body><office:{kind}>{body}"
            f"</office:{kind}></office:body></office:document-content>",
            "styles.xml": f"<office:document-styles {_ODF}>{_MARGINS}</office:document-styles>",
            "Object 1/content.xml": f"<office:document-content {_ODF}>{_ODF_CHART}"
            "</office:document-content>",
        }
    )


def _flat(kind: str, body: str) -> bytes:
    return (
        f'<?xml version="1.0"?>\n<office:document {_ODF}>{_MARGINS}<office:body>'
        f"<office:{kind}>{body}</office:{kind}></office:body></office:document>"
    ).encode()


# PDF

_PDF_FACTS = (
    Text("text of the page"),
    Ordered(("Form fields", "name: Ada Lovelace", "agree: Yes", "Comments", "Bo: a doubt")),
    Text("typed on the page"),
    Text("why this?"),
    Text("data.csv"),
    Absent("hidden remark"),
    Absent("remark not to be seen"),
    Absent("pass phrase"),
)


def _pdf() -> bytes:
    fields = (
        "/Subtype /Widget /FT /Tx /T (name) /V (Ada Lovelace)",
        "/Subtype /Widget /FT /Btn /T (agree) /V /Yes /AS /Yes",
        "/Subtype /Widget /FT /Tx /Ff 8192 /T (secret) /V (pass phrase)",
        "/Subtype /Text /T (Bo) /Contents (a doubt)",
        "/Subtype /FreeText /Contents (typed on the page)",
        "/Subtype /Highlight /QuadPoints [72 732 200 732 72 718 200 718] /Contents (why this?)",
        "/Subtype /Text /F 2 /Contents (hidden remark)",
        "/Subtype /Text /F 32 /Contents (remark not to be seen)",
    )
    drawn = "BT /F1 12 Tf 72 720 Td (text of the page) Tj ET"
    numbers = range(9, 9 + len(fields))
    references = " ".join(f"{number} 0 R" for number in numbers)
    return pdf_of(
        [
            f"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [{references}] >> /Names << "
            "/EmbeddedFiles << /Names [(data.csv) 6 0 R] >> >> >>",
            "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << "
            f"/F1 3 0 R >> >> /Contents 5 0 R /Annots [{references}] >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
            "<< /Type /Filespec /F (data.csv) /UF (data.csv) /EF << /F 7 0 R >> >>",
            "<< /Type /EmbeddedFile /Length 1 >>\nstream\n1\nendstream",
            "null",
            *(f"<< /Type /Annot /Rect [0 0 9 9] {field} >>" for field in fields),
        ]
    )


# Mail

_OBSOLETE = b"""From mailbox Thu Feb 13 23:32:00 1969
From : Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>
To: A Group(Some people)
     :Chris Jones <c@(Chris's host.)public.example>,
         joe@example.org,\t
  John <jdoe@one.test> (my dear friend); (the end of the group)
To\t: Mary <@node.test,@x.test:mary@example.net>, , jdoe@test  . example
Cc:(Empty list)(start)Hidden recipients  :(nobody(that I know))  ;
Reply-To: "=?utf-8?q?Z=C3=BCrich_office?=" <z@example.org>
Date  : 21 Nov 97 09(comment):   55  :  06 -0600
Subject: =?iso-8859-1?q?in a =E9t=E9?= (=?x-unknown?b?Y2Fm6Q==?=)
Content-Type: multipart/alternative (two); (of them) boundary=(the) "B"

--B
Content-Type : text/plain (plain); charset=(latin) iso-8859-1 (one)
Content-Transfer-Encoding: (q) quoted-printable (really)

Gr=FC=DFe aus K=F6ln
--B
Content-Type: text/html

<p>another version</p>
--B
Content-Type: text/calendar; method=REQUEST; name=meeting (1).ics

BEGIN:VCALENDAR
--B--
"""
_OBSOLETE_FACTS = (
    Text("From: Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>"),
    Text("To: A Group(Some people) :Chris Jones <c@(Chris's host.)public.example>, joe@"),
    Text("John <jdoe@one.test> (my dear friend); (the end of the group), Mary <@node.test,"),
    Text("Cc: (Empty list)(start)Hidden recipients :(nobody(that I know)) ;"),
    Text('Reply-To: "Zürich office" <z@example.org>'),
    Text("Date: 21 Nov 97 09(comment): 55 : 06 -0600"),
    Text("Subject: in a été (café)"),
    Text("Grüße aus Köln"),
    Absent("another version"),
    Text("meeting (1).ics (text/calendar"),
    Absent("Content-Type"),
)
_REPORT = b"""From: MAILER-DAEMON@example.org
Subject: Undelivered
Content-Type: multipart/report; report-type=delivery-status; boundary="B"

--B
Content-Type: text/plain

could not be delivered
--B
Content-Type: message/delivery-status

Reporting-MTA: dns; mail.example.org

Final-Recipient: rfc822; bo@example.org
Action: failed
Diagnostic-Code: smtp; 550 5.1.1 <bo@example.org>:
  Recipient unknown

Final-Recipient: rfc822; cy@example.org
Action: delayed
--B
Content-Type: text/rfc822-headers

Subject: the original subject
--B--
"""
_REPORT_FACTS = (
    Ordered(("could not be", "Report", "bo@example.org", "failed", "cy@example.org", "delayed")),
    Text("Diagnostic-Code: smtp; 550 5.1.1 <bo@example.org>: Recipient unknown"),
    Text("Reporting-MTA: dns; mail.example.org"),
    Text("the original subject"),
    Absent("without a name"),
)
_RECEIPT = b"""From: bo@example.org
Subject: Read
Content-Type: multipart/report; report-type=disposition-notification; boundary=B

--B
Content-Type: message/disposition-notification

Final-Recipient: rfc822;bo@example.org
Disposition: manual-action/MDN-sent-manually; displayed
--B
Content-Type: message/rfc822

Subject: the original

its text
--B--
"""
_RECEIPT_FACTS = (
    Text("Disposition: manual-action/MDN-sent-manually; displayed"),
    Ordered(("Report", "Final-Recipient", "Attached mail: the original", "its text")),
)
_MHT = b"""From: <Saved by a browser>
Subject: =?utf-8?Q?A_page_saved_in_Z=C3=BCrich?=
MIME-Version: 1.0
Content-Type: multipart/related; type="text/html"; boundary="B"

--B
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: quoted-printable

<html><head><style>.gone {display: none}</style></head><body><h1>Gr=C3=BC=C3=9Fe</h1>
<p class=3D"gone">invisible ink</p><script>script text</script></body></html>
--B
Content-Type: text/css
Content-Location: https://example.org/style.css

body {color: red}
--B--
"""
_MHT_FACTS = (
    Text("Subject: A page saved in Zürich"),
    Heading("Grüße"),
    Absent("invisible ink"),
    Absent("script text"),
    Absent("color: red"),
    Text("https://example.org/style.css (text/css"),
)
