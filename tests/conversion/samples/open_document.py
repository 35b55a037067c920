"""OpenDocument files, and EPUB books."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conversion.facts import Absent, Cell, Fact, Heading, Link, Ordered, Placed, Text
from tests.conversion.formats.zipped import zipped

_ODF = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "style": "style",
        "draw": "drawing",
        "presentation": "presentation",
        "svg": "svg-compatible",
        "fo": "xsl-fo-compatible",
    }.items()
)


def documents() -> Mapping[str, tuple[bytes, tuple[Fact, ...]]]:
    """Return documents and their facts by file name."""
    return {
        "letter.odt": (_odf("text", _ODT), _ODT_FACTS),
        "stock.ods": (_odf("spreadsheet", _ODS), _ODS_FACTS),
        "deck.odp": (_odf("presentation", _ODP), _ODP_FACTS),
        "novel.epub": (_epub(), _EPUB_FACTS),
    }


def _row(*cells: str) -> str:
    each = "".join(f"<table:table-cell><text:p>{c}</text:p></table:table-cell>" for c in cells)
    return f"<table:table-row>{each}</table:table-row>"


_TABLE = _row("Product", "Price", "Stock") + _row("Espresso", "3.20", "17")
_ODT = f"""<text:tracked-changes><text:changed-region><text:deletion>
<text:p>deleted sentence</text:p></text:deletion></text:changed-region></text:tracked-changes>
<text:h text:outline-level="1">Dear reader</text:h>
<text:p>from <text:a xlink:href="https://example.com/odt" xmlns:xlink="http://www.w3.org/1999/xlink"
>Zürich</text:a> with<text:s/>regards<text:note text:note-class="footnote"><text:note-citation>1
</text:note-citation><text:note-body><text:p>a footnote</text:p></text:note-body></text:note>
<text:span text:style-name="T1">invisible ink</text:span></text:p>
<text:list><text:list-item><text:p>first item</text:p></text:list-item></text:list>
<table:table>{_TABLE}</table:table><text:p>the last word</text:p>"""
_ODT_FACTS = (
    Heading("Dear reader"),
    Text("with regards"),
    Link("https://example.com/odt", "Zürich"),
    Text("a footnote"),
    Text("first item"),
    Cell("Espresso", "Stock", "17"),
    Ordered(("Dear reader", "Zürich", "Espresso", "the last word")),
    Absent("deleted sentence"),
    Absent("invisible ink"),
)
_ODS = f"""<table:table table:name="Stock">{_TABLE}<table:table-row
table:number-rows-repeated="2000">{_row("more", "1", "2").partition(">")[2]}
{_row("the last row", "9", "8")}</table:table>
<table:table table:name="Second">{_row("city")}{_row("Zürich")}</table:table>"""
_ODS_FACTS = (
    Placed("Stock", "Espresso"),
    Cell("Espresso", "Price", "3.20"),
    Cell("the last row", "Stock", "8"),
    Cell("Zürich", "city", "Zürich"),
)


def _frame(text: str, kind: str) -> str:
    return (
        f'<draw:frame presentation:class="{kind}"><draw:text-box><text:p>{text}</text:p>'
        "</draw:text-box></draw:frame>"
    )


_ODP = (
    f"<draw:page>{_frame('The year', 'title')}{_frame('growth of 17 %', 'outline')}"
    f"<presentation:notes>{_frame('a pause here', 'notes')}</presentation:notes></draw:page>"
    f"<draw:page><draw:frame><table:table>{_TABLE}</table:table></draw:frame></draw:page>"
)
_ODP_FACTS = (
    Heading("The year"),
    Placed("Slide 1", "growth of 17 %"),
    Placed("Slide 2", "Espresso"),
    Cell("Espresso", "Price", "3.20"),
    Text("a pause here"),
)


def _odf(kind: str, body: str) -> bytes:
    style = (
        '<style:style style:name="T1" style:family="text"><style:text-properties '
        'text:display="none"/></style:style>'
    )
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_ODF}><office:automatic-styles>{style}"
            f"</office:automatic-styles><office:body><office:{kind}>{body}</office:{kind}>"
            "</office:body></office:document-content>",
        }
    )


_EPUB_FACTS = (
    Heading("The Harbour"),
    Text("Ada Lovelace"),
    Heading("Arrival"),
    Ordered(("Arrival", "a ship", "Departure", "the last word")),
    Placed("Chapter 2", "the last word"),
    Link("https://example.com/book", "the map"),
    Cell("Espresso", "Price", "3.20"),
    Absent("invisible ink"),
    Absent("script text"),
)


def _epub() -> bytes:
    first = (
        "<h1>Arrival</h1><p>In Zürich, a ship; see <a href='https://example.com/book'>the map</a>"
        "</p><p hidden='hidden'>invisible ink</p><script>script text</script>"
    )
    second = (
        "<h1>Departure</h1><table><tr><th>Product</th><th>Price</th></tr>"
        "<tr><td>Espresso</td><td>3.20</td></tr></table><p>the last word</p>"
    )
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'
    items = "".join(
        f'<item id="c{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in (1, 2)
    )
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container version="1.0" '
            'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
            'full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles>'
            "</container>",
            "book.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
            '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Harbour</dc:title>'
            f"<dc:creator>Ada Lovelace</dc:creator></metadata><manifest>{items}</manifest>"
            '<spine><itemref idref="c1"/><itemref idref="c2"/></spine></package>',
            "1.xhtml": page.format(first),
            "2.xhtml": page.format(second),
        }
    )
