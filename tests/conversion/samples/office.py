"""Office documents: DOCX, XLSX, PPTX, and the older XLS."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from tests.conversion.facts import Absent, Cell, Fact, Heading, Link, Ordered, Placed, Text
from tests.conversion.formats.zipped import zipped
from tests.conversion.xls import xls

_OFFICE = "http://schemas.openxmlformats.org"
_RELATED = f"{_OFFICE}/officeDocument/2006/relationships"
_PACKAGE = f"{_OFFICE}/package/2006"
_TYPES = "application/vnd.openxmlformats-officedocument"
_W = (
    f'xmlns:w="{_OFFICE}/wordprocessingml/2006/main" xmlns:r="{_RELATED}" '
    f'xmlns:m="{_OFFICE}/officeDocument/2006/math"'
)
_P = (
    f'xmlns:p="{_OFFICE}/presentationml/2006/main" xmlns:a="{_OFFICE}/drawingml/2006/main" '
    f'xmlns:r="{_RELATED}" xmlns:c="{_OFFICE}/drawingml/2006/chart"'
)
_X = f'xmlns="{_OFFICE}/spreadsheetml/2006/main" xmlns:r="{_RELATED}"'
_LONG = 3000


def documents() -> Mapping[str, tuple[bytes, tuple[Fact, ...]]]:
    """Return documents and their facts by file name."""
    return {
        "contract.docx": (_docx(), _DOCX_FACTS),
        "sales.xlsx": (_xlsx(), _XLSX_FACTS),
        "talk.pptx": (_pptx(), _PPTX_FACTS),
        "old.xls": (_xls(), _XLS_FACTS),
    }


def _relations(*targets: tuple[str, str]) -> str:
    """Return relations `rId1` and so on, each of a kind and a target."""
    each = "".join(
        f'<Relationship Id="rId{number}" Type="{_RELATED}/{kind}" Target="{escape(target)}" '
        f'TargetMode="{"External" if "://" in target else "Internal"}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{each}</Relationships>'


def _content_types(parts: Mapping[str, str]) -> str:
    each = "".join(
        f'<Override PartName="/{name}" ContentType="{_TYPES}.{kind}+xml"/>'
        for name, kind in parts.items()
    )
    return (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>'
        f'<Default Extension="png" ContentType="image/png"/>{each}</Types>'
    )


# DOCX

_DOCX_FACTS = (
    Heading("Supply contract"),
    Heading("Prices"),
    Text("between Ada & Bo, signed in Zürich"),
    Ordered(("Supply contract", "signed in", "Prices", "Espresso", "the last word")),
    Cell("Espresso", "Price", "3.20"),
    Cell("Filter", "Stock", "55"),
    Link("https://example.com/terms?a=1&b=2", "the terms"),
    Text("a footnote about delivery"),
    Text("inserted later"),
    Absent("deleted sentence"),
    Absent("invisible ink"),
    Ordered(("third step", "below it")),
    Text("boxed remark"),
    Text(r"\frac{1}{2}"),
)


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _paragraph(content: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr>{content}</w:p>"


def _docx() -> bytes:
    def row(*cells: str) -> str:
        each = "".join(
            f'<w:tc><w:tcPr><w:tcW w:w="2000" w:type="dxa"/></w:tcPr>{_paragraph(_run(c))}</w:tc>'
            for c in cells
        )
        return f"<w:tr>{each}</w:tr>"

    def item(text: str, level: int) -> str:
        numbering = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="5"/></w:numPr>'
        return _paragraph(_run(text), numbering)

    body = (
        _paragraph(_run("Supply contract"), '<w:pStyle w:val="Heading1"/>')
        + _paragraph(
            _run("between ")
            + _run("Ada", "<w:b/>")
            + _run(" &amp; Bo, signed in Zürich")
            + '<w:r><w:footnoteReference w:id="2"/></w:r>'
        )
        + _paragraph(
            _run("See ")
            + f'<w:hyperlink r:id="rId4">{_run("the terms")}</w:hyperlink>'
            + '<w:ins w:id="1" w:author="a">'
            + _run(", inserted later")
            + '</w:ins><w:del w:id="2" w:author="a"><w:r><w:delText>deleted sentence</w:delText>'
            + "</w:r></w:del>"
            + _run("invisible ink", "<w:vanish/>")
        )
        + item("third step", 0)
        + item("below it", 1)
        + _paragraph(_run("Prices"), '<w:pStyle w:val="Heading2"/>')
        + '<w:tbl><w:tblPr/><w:tblGrid><w:gridCol w:w="2000"/><w:gridCol w:w="2000"/>'
        + '<w:gridCol w:w="2000"/></w:tblGrid>'
        + row("Product", "Price", "Stock")
        + row("Espresso", "3.20", "17")
        + row("Filter", "2.80", "55")
        + "</w:tbl>"
        + _paragraph(
            _run("a half is ") + "<m:oMath><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num>"
            "<m:den><m:r><m:t>2</m:t></m:r></m:den></m:f></m:oMath>"
        )
        + _paragraph(
            '<w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:textbox>'
            f"<w:txbxContent>{_paragraph(_run('boxed remark'))}</w:txbxContent></v:textbox>"
            "</v:shape></w:pict></w:r>"
        )
        + _paragraph(_run("the last word"))
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}">'
        f'<w:name w:val="heading {n}"/></w:style>'
        for n in (1, 2)
    )
    levels = "".join(
        f'<w:lvl w:ilvl="{n}"><w:start w:val="3"/><w:numFmt w:val="decimal"/></w:lvl>'
        for n in (0, 1)
    )
    kind = "wordprocessingml"
    return zipped(
        {
            "[Content_Types].xml": _content_types(
                {
                    "word/document.xml": f"{kind}.document.main",
                    "word/styles.xml": f"{kind}.styles",
                    "word/numbering.xml": f"{kind}.numbering",
                    "word/footnotes.xml": f"{kind}.footnotes",
                }
            ),
            "_rels/.rels": _relations(("officeDocument", "word/document.xml")),
            "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
            "word/_rels/document.xml.rels": _relations(
                ("styles", "styles.xml"),
                ("numbering", "numbering.xml"),
                ("footnotes", "footnotes.xml"),
                ("hyperlink", "https://example.com/terms?a=1&b=2"),
            ),
            "word/styles.xml": f"<w:styles {_W}>{styles}</w:styles>",
            "word/numbering.xml": f'<w:numbering {_W}><w:abstractNum w:abstractNumId="7">{levels}'
            '</w:abstractNum><w:num w:numId="5"><w:abstractNumId w:val="7"/></w:num></w:numbering>',
            "word/footnotes.xml": f'<w:footnotes {_W}><w:footnote w:id="2">'
            f"{_paragraph(_run('a footnote about delivery'))}</w:footnote></w:footnotes>",
        }
    )


# XLSX

_XLSX_FACTS = (
    Placed("Orders", "customer 17"),
    Cell("customer 17", "amount", "170"),
    Cell(f"customer {_LONG}", "amount", str(_LONG * 10)),
    Cell("customer 2", "day", "2026-03-15"),
    Cell("customer 3", "share", "#DIV/0!"),
    Ordered(("customer 1 ", f"customer {_LONG} ", "Zürich")),
    Cell("Zürich", "note", "a | b"),
    Text("on a hidden sheet"),
)


def _xlsx() -> bytes:
    def text(ref: str, value: str) -> str:
        return f'<c r="{ref}" t="inlineStr"><is><t>{value}</t></is></c>'

    def sheet(*rows: str) -> str:
        each = "".join(f'<row r="{at}">{row}</row>' for at, row in enumerate(rows, 1))
        return f"<worksheet {_X}><sheetData>{each}</sheetData></worksheet>"

    orders = [
        text("A1", "who") + text("B1", "amount") + text("C1", "day") + text("D1", "share"),
        *(
            text(f"A{n + 1}", f"customer {n}")
            + f'<c r="B{n + 1}"><v>{n * 10}</v></c><c r="C{n + 1}" s="1"><v>{46094 + n}</v></c>'
            + (f'<c r="D{n + 1}" t="e"><v>#DIV/0!</v></c>' if n == 3 else "")
            for n in range(1, _LONG + 1)
        ),
    ]
    names = ("Orders", "Cities", "Hidden")
    entries = "".join(
        f'<sheet name="{name}" sheetId="{at}" r:id="rId{at}" '
        f'state="{"hidden" if name == "Hidden" else "visible"}"/>'
        for at, name in enumerate(names, 1)
    )
    files = [f"xl/worksheets/sheet{at}.xml" for at in (1, 2, 3)]
    return zipped(
        {
            "[Content_Types].xml": _content_types(
                {
                    "xl/workbook.xml": "spreadsheetml.sheet.main",
                    "xl/styles.xml": "spreadsheetml.styles",
                    **dict.fromkeys(files, "spreadsheetml.worksheet"),
                }
            ),
            "_rels/.rels": _relations(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f"<workbook {_X}><sheets>{entries}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": _relations(
                *(("worksheet", f"worksheets/sheet{at}.xml") for at in (1, 2, 3)),
                ("styles", "styles.xml"),
            ),
            "xl/styles.xml": f"<styleSheet {_X}><fonts><font/></fonts>"
            "<fills><fill><patternFill/></fill></fills><borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs>"
            '<cellXfs><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/></cellXfs>'
            "</styleSheet>",
            files[0]: sheet(*orders),
            files[1]: sheet(
                text("A1", "city") + text("B1", "note"), text("A2", "Zürich") + text("B2", "a | b")
            ),
            files[2]: sheet(text("A1", "on a hidden sheet")),
        }
    )


# PPTX

_PPTX_FACTS = (
    Heading("The year"),
    Placed("Slide 1", "growth of 17 %"),
    Placed("Slide 2", "Espresso"),
    Ordered(("The year", "growth of 17 %", "Espresso", "the last slide")),
    Ordered(("growth of 17 %", "in all regions", "a pause here")),
    Cell("Espresso", "Price", "3.20"),
    Link("https://example.com/deck", "the figures"),
    Text("a pause here"),
    Text("a picture of a harbour"),
    Text("Turnover by quarter"),
    Cell("Q2", "North", "140.5"),
    Text("inside a group"),
    Absent("invisible shape"),
)


def _shape(number: int, text: str, place: str = "body", attributes: str = "") -> str:
    lines = "".join(
        f'<a:p><a:pPr lvl="{len(line) - len(line.lstrip())}"/><a:r><a:t>{line.strip()}</a:t></a:r>'
        "</a:p>"
        for line in text.split("\n")
    )
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name="Shape {number}"{attributes}/><p:cNvSpPr/>'
        f'<p:nvPr><p:ph type="{place}"/></p:nvPr></p:nvSpPr><p:spPr/>'
        f"<p:txBody><a:bodyPr/>{lines}</p:txBody></p:sp>"
    )


def _tree(*shapes: str) -> str:
    return (
        '<p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/>'
        f"</p:nvGrpSpPr><p:grpSpPr/>{''.join(shapes)}</p:spTree></p:cSld>"
    )


def _frame(number: int, uri: str, content: str) -> str:
    return (
        f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="{number}" name="Frame {number}"/>'
        "<p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr>"
        '<p:xfrm><a:off x="0" y="5000000"/><a:ext cx="9" cy="9"/></p:xfrm>'
        f'<a:graphic><a:graphicData uri="{_OFFICE}/drawingml/2006/{uri}">{content}'
        "</a:graphicData></a:graphic></p:graphicFrame>"
    )


def _table(*rows: tuple[str, ...]) -> str:
    lines = "".join(
        '<a:tr h="9">'
        + "".join(
            f"<a:tc><a:txBody><a:bodyPr/><a:p><a:r><a:t>{cell}</a:t></a:r></a:p></a:txBody></a:tc>"
            for cell in row
        )
        + "</a:tr>"
        for row in rows
    )
    grid = '<a:gridCol w="9"/>' * len(rows[0])
    return f"<a:tbl><a:tblGrid>{grid}</a:tblGrid>{lines}</a:tbl>"


def _chart() -> str:
    def cache(kind: str, tag: str, values: tuple[str, ...]) -> str:
        points = "".join(f'<c:pt idx="{at}"><c:v>{v}</c:v></c:pt>' for at, v in enumerate(values))
        count = f'<c:ptCount val="{len(values)}"/>{points}'
        return (
            f"<c:{tag}><c:{kind}Ref><c:f>S!$A$1</c:f><c:{kind}Cache>{count}"
            f"</c:{kind}Cache></c:{kind}Ref></c:{tag}>"
        )

    series = "".join(
        f'<c:ser><c:idx val="{at}"/><c:order val="{at}"/>{cache("str", "tx", (name,))}'
        f"{cache('str', 'cat', ('Q1', 'Q2'))}{cache('num', 'val', values)}</c:ser>"
        for at, (name, values) in enumerate(
            (("North", ("120.5", "140.5")), ("South", ("90", "95")))
        )
    )
    return (
        f"<c:chartSpace {_P}><c:chart><c:title><c:tx><c:rich><a:bodyPr/><a:p><a:r>"
        "<a:t>Turnover by quarter</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea>"
        f'<c:barChart><c:barDir val="col"/>{series}<c:axId val="1"/><c:axId val="2"/></c:barChart>'
        "</c:plotArea></c:chart></c:chartSpace>"
    )


def _pptx() -> bytes:
    link = (
        '<p:sp><p:nvSpPr><p:cNvPr id="7" name="Link"/><p:cNvSpPr txBox="1"/><p:nvPr/>'
        "</p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:rPr>"
        '<a:hlinkClick r:id="rId2"/></a:rPr>'
        "<a:t>the figures</a:t></a:r></a:p></p:txBody></p:sp>"
    )
    group = (
        '<p:grpSp><p:nvGrpSpPr><p:cNvPr id="8" name="Group"/><p:cNvGrpSpPr/><p:nvPr/>'
        f"</p:nvGrpSpPr><p:grpSpPr/>{_shape(9, 'inside a group')}</p:grpSp>"
    )
    picture = (
        '<p:pic><p:nvPicPr><p:cNvPr id="10" name="Picture" descr="a picture of a harbour"/>'
        '<p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill><a:blip r:embed="rId3"/></p:blipFill>'
        "<p:spPr/></p:pic>"
    )
    slides = (
        _tree(
            _shape(2, "The year", "title"),
            _shape(3, "growth of 17 %\n in all regions"),
            link,
        ),
        _tree(
            _shape(2, "Prices", "title"),
            _frame(3, "table", _table(("Product", "Price"), ("Espresso", "3.20"))),
            group,
            picture,
            _shape(11, "invisible shape", attributes=' hidden="1"'),
        ),
        _tree(
            _shape(2, "the last slide", "title"),
            _frame(3, "chart", '<c:chart r:id="rId2"/>'),
        ),
    )
    numbers = (1, 2, 3)
    layout = ("slideLayout", "../slideLayouts/slideLayout1.xml")
    related = (
        (("hyperlink", "https://example.com/deck"), ("notesSlide", "../notesSlides/notes1.xml")),
        (("hyperlink", "https://example.com/"), ("image", "../media/image1.png")),
        (("chart", "../charts/chart1.xml"),),
    )
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n + 1}"/>' for n in numbers)
    kind = "presentationml"
    return zipped(
        {
            "[Content_Types].xml": _content_types(
                {
                    "ppt/presentation.xml": f"{kind}.presentation.main",
                    "ppt/slideMasters/slideMaster1.xml": f"{kind}.slideMaster",
                    "ppt/slideLayouts/slideLayout1.xml": f"{kind}.slideLayout",
                    "ppt/notesSlides/notes1.xml": f"{kind}.notesSlide",
                    "ppt/charts/chart1.xml": "drawingml.chart",
                    **{f"ppt/slides/slide{n}.xml": f"{kind}.slide" for n in numbers},
                }
            ),
            "_rels/.rels": _relations(("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f"<p:presentation {_P}><p:sldMasterIdLst>"
            '<p:sldMasterId r:id="rId1"/></p:sldMasterIdLst>'
            f"<p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": _relations(
                ("slideMaster", "slideMasters/slideMaster1.xml"),
                *(("slide", f"slides/slide{n}.xml") for n in numbers),
            ),
            "ppt/slideMasters/slideMaster1.xml": f"<p:sldMaster {_P}>{_tree()}</p:sldMaster>",
            "ppt/slideMasters/_rels/slideMaster1.xml.rels": _relations(layout),
            "ppt/slideLayouts/slideLayout1.xml": f"<p:sldLayout {_P}>{_tree()}</p:sldLayout>",
            "ppt/slideLayouts/_rels/slideLayout1.xml.rels": _relations(
                ("slideMaster", "../slideMasters/slideMaster1.xml")
            ),
            **{f"ppt/slides/slide{n}.xml": f"<p:sld {_P}>{slides[n - 1]}</p:sld>" for n in numbers},
            **{
                f"ppt/slides/_rels/slide{n}.xml.rels": _relations(layout, *related[n - 1])
                for n in numbers
            },
            "ppt/notesSlides/notes1.xml": f"<p:notes {_P}>{_tree(_shape(2, 'a pause here'))}"
            "</p:notes>",
            "ppt/notesSlides/_rels/notes1.xml.rels": _relations(("slide", "../slides/slide1.xml")),
            "ppt/charts/chart1.xml": _chart(),
            "ppt/media/image1.png": b"\x89PNG\r\n\x1a\n" + bytes(99),
        }
    )


# XLS

_XLS_FACTS = (
    Cell("Zürich", "height", "408"),
    Placed("Second", "on the second sheet"),
    Cell("row 500", "value", "1.5"),
)


def _xls() -> bytes:
    return xls(
        {
            "First": {(0, 0): "city", (0, 1): "height", (1, 0): "Zürich", (1, 1): 408.0},
            "Second": {
                (0, 0): "name",
                (0, 1): "value",
                (1, 0): "on the second sheet",
                **{(at, 0): f"row {at}" for at in range(2, 501)},
                (500, 1): 1.5,
            },
        }
    )
