"""A small PDF and a small workbook, written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conversion.formats.zipped import zipped

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
    '<xf numFmtId="22"/></cellXfs></styleSheet>'
)


SCAN = "q 612 0 0 792 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID x EI Q"
"""What a page draws that is a picture."""


def pdf(*pages: str) -> bytes:
    """Return a document with a line and a link on each page; an empty page has no text.

    A page of `SCAN` is a picture.
    """
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        drawn = SCAN if text == SCAN else drawn
        link = f"<< /S /URI /URI (https://example.com/{at + 1}) >>"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * at} 0 R"
            f" /Annots [<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A {link} >>] >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    return pdf_of(objects)


def xlsx(*sheets: str, states: tuple[str, ...] = ()) -> bytes:
    """Return a workbook of sheets named `Sheet1` and so on, by the XML of their rows."""
    numbers = range(1, len(sheets) + 1)
    entries = "".join(
        f'<sheet name="Sheet{at}" sheetId="{at}" r:id="r{at}" '
        f'state="{dict(enumerate(states, 1)).get(at, "visible")}"/>'
        for at in numbers
    )
    relations = "".join(
        f'<Relationship Id="r{at}" Type="{_RELATED}/worksheet" Target="worksheets/s{at}.xml"/>'
        for at in numbers
    )
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE[:-13]}content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="main" '
            f'Type="{_RELATED}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATED}">'
            f"<sheets>{entries}</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}">{relations}'
            f'<Relationship Id="st" Type="{_RELATED}/styles" Target="styles.xml"/></Relationships>',
            "xl/styles.xml": _STYLES,
            **{
                f"xl/worksheets/s{at}.xml": f'<worksheet xmlns="{_MAIN}"><sheetData>{sheet}'
                "</sheetData></worksheet>"
                for at, sheet in enumerate(sheets, 1)
            },
        }
    )


def pdf_of(objects: Sequence[str]) -> bytes:
    """Return a PDF of these objects, of which the first is the catalog."""
    written, offsets = b"%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{each}\nendobj\n".encode()
    entries = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    tail = f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF"
    return written + f"xref\n0 {size}\n0000000000 65535 f \n{entries}{tail}".encode()
