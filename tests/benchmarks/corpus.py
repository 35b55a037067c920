"""A mixed corpus of documents, each with other words: what an office folder holds."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from pathlib import Path
from xml.sax.saxutils import escape

from tests.conversion.portable import pdf_of

_WORDS = (
    "account agreement annual balance board budget client contract customer delivery department "
    "discount engine estimate forecast growth invoice margin market meeting order partner payment "
    "product project quarter region report revenue review risk sales schedule service shipment "
    "status supplier target team total transport value warehouse week year"
).split()
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPES = "application/vnd.openxmlformats-officedocument"
_PRESENTATION = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def write(folder: Path, copies: int) -> dict[str, list[Path]]:
    """Write so many documents of each format; return their paths by format."""
    dice = random.Random(17)  # noqa: S311 - documents, no secrets
    found: dict[str, list[Path]] = {}
    for suffix, make in _MAKERS.items():
        for number in range(copies):
            path = folder / f"{suffix}-{number:03}.{suffix}"
            path.write_bytes(make(dice))
            found.setdefault(suffix, []).append(path)
    return found


def _sentence(dice: random.Random) -> str:
    return " ".join(dice.choices(_WORDS, k=12)).capitalize() + "."


def _paragraph(dice: random.Random) -> str:
    return " ".join(_sentence(dice) for _ in range(5))


def _rows(dice: random.Random, count: int) -> list[list[str]]:
    return [
        [str(number), dice.choice(_WORDS), dice.choice(_WORDS), str(dice.randrange(10**6))]
        for number in range(count)
    ]


def _zip(members: Mapping[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return target.getvalue()


def _relations(*targets: tuple[str, str]) -> str:
    each = "".join(
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{each}</Relationships>'


def _content_types(parts: Mapping[str, str]) -> str:
    each = "".join(
        f'<Override PartName="/{name}" ContentType="{_TYPES}.{type}+xml"/>'
        for name, type in parts.items()
    )
    return (
        f'<Types xmlns="{_PACKAGE}/content-types">'
        f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package'
        f'.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f"{each}</Types>"
    )


def _pdf(dice: random.Random) -> bytes:
    pages = [[_sentence(dice)[:90] for _ in range(45)] for _ in range(12)]
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, lines in enumerate(pages):
        shown = " ".join(f"({line}) '" for line in lines)
        drawn = f"BT /F1 10 Tf 14 TL 60 760 Td {shown} ET"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * at} 0 R >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    return pdf_of(objects)


def _docx(dice: random.Random) -> bytes:
    def run(text: str) -> str:
        return f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"

    cells = "".join(
        "<w:tr>" + "".join(f"<w:tc>{run(cell)}</w:tc>" for cell in row) + "</w:tr>"
        for row in _rows(dice, 40)
    )
    body = "".join(run(_paragraph(dice)) for _ in range(120)) + f"<w:tbl>{cells}</w:tbl>"
    return _zip(
        {
            "[Content_Types].xml": _content_types(
                {"word/document.xml": "wordprocessingml.document.main"}
            ),
            "_rels/.rels": _relations(("officeDocument", "word/document.xml")),
            "word/document.xml": "<w:document xmlns:w="
            '"http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
            f"<w:body>{body}</w:body></w:document>",
        }
    )


def _xlsx(dice: random.Random) -> bytes:
    rows = "".join(
        f'<row r="{at}">'
        + "".join(
            f'<c r="{"ABCD"[column]}{at}" t="inlineStr"><is><t>{cell}</t></is></c>'
            for column, cell in enumerate(row)
        )
        + "</row>"
        for at, row in enumerate(_rows(dice, 1000), 1)
    )
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return _zip(
        {
            "[Content_Types].xml": _content_types(
                {
                    "xl/workbook.xml": "spreadsheetml.sheet.main",
                    "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet",
                }
            ),
            "_rels/.rels": _relations(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{space}" xmlns:r="{_OFFICE}"><sheets>'
            '<sheet name="Data" sheetId="1" r:id="rId1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": _relations(("worksheet", "worksheets/sheet1.xml")),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{space}"><sheetData>{rows}'
            "</sheetData></worksheet>",
        }
    )


def _pptx(dice: random.Random) -> bytes:
    count = 15
    spaces = f'xmlns:p="{_PRESENTATION}" xmlns:a="{_DRAWING}" xmlns:r="{_OFFICE}"'

    def shape(number: int, place: str, text: str) -> str:
        lines = "".join(
            f"<a:p><a:r><a:t>{escape(each)}</a:t></a:r></a:p>" for each in text.split("\n")
        )
        return (
            f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name="Shape {number}"/><p:cNvSpPr/>'
            f'<p:nvPr><p:ph type="{place}"/></p:nvPr></p:nvSpPr><p:spPr/>'
            f"<p:txBody><a:bodyPr/>{lines}</p:txBody></p:sp>"
        )

    def tree(*shapes: str) -> str:
        return (
            '<p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/>'
            f"</p:nvGrpSpPr><p:grpSpPr/>{''.join(shapes)}</p:spTree></p:cSld>"
        )

    slides = [f"ppt/slides/slide{number}.xml" for number in range(1, count + 1)]
    members = {
        name: f"<p:sld {spaces}>"
        + tree(
            shape(2, "title", _sentence(dice)),
            shape(3, "body", "\n".join(_sentence(dice) for _ in range(8))),
        )
        + "</p:sld>"
        for name in slides
    }
    for number in range(1, count + 1):
        members[f"ppt/slides/_rels/slide{number}.xml.rels"] = _relations(
            ("slideLayout", "../slideLayouts/slideLayout1.xml")
        )
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n + 1}"/>' for n in range(1, count + 1))
    kind = "presentationml"
    return _zip(
        {
            "[Content_Types].xml": _content_types(
                {
                    "ppt/presentation.xml": f"{kind}.presentation.main",
                    "ppt/slideMasters/slideMaster1.xml": f"{kind}.slideMaster",
                    "ppt/slideLayouts/slideLayout1.xml": f"{kind}.slideLayout",
                    **dict.fromkeys(slides, f"{kind}.slide"),
                }
            ),
            "_rels/.rels": _relations(("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f"<p:presentation {spaces}><p:sldMasterIdLst>"
            '<p:sldMasterId r:id="rId1"/></p:sldMasterIdLst>'
            f"<p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": _relations(
                ("slideMaster", "slideMasters/slideMaster1.xml"),
                *(("slide", name.removeprefix("ppt/")) for name in slides),
            ),
            "ppt/slideMasters/slideMaster1.xml": f"<p:sldMaster {spaces}>{tree()}</p:sldMaster>",
            "ppt/slideMasters/_rels/slideMaster1.xml.rels": _relations(
                ("slideLayout", "../slideLayouts/slideLayout1.xml")
            ),
            "ppt/slideLayouts/slideLayout1.xml": f"<p:sldLayout {spaces}>{tree()}</p:sldLayout>",
            "ppt/slideLayouts/_rels/slideLayout1.xml.rels": _relations(
                ("slideMaster", "../slideMasters/slideMaster1.xml")
            ),
            **members,
        }
    )


def _html_page(dice: random.Random, paragraphs: int) -> str:
    text = "".join(
        f"<h2>{_sentence(dice)}</h2><p>{_paragraph(dice)} <a href='https://example.com'>more</a></p>"
        for _ in range(paragraphs)
    )
    rows = "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in _rows(dice, 60)
    )
    return (
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>Report</title></head>'
        f"<body>{text}<table>{rows}</table></body></html>"
    )


def _html(dice: random.Random) -> bytes:
    return _html_page(dice, 100).encode()


def _epub(dice: random.Random) -> bytes:
    chapters = [f"chapter{number}.xhtml" for number in range(8)]
    items = "".join(
        f'<item id="c{n}" href="{name}" media-type="application/xhtml+xml"/>'
        for n, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    return _zip(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container version="1.0" '
            'xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/>'
            "</rootfiles></container>",
            "book.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" '
            'unique-identifier="id"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
            "<dc:title>Report</dc:title></metadata>"
            f"<manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{name: _html_page(dice, 12) for name in chapters},
        }
    )


def _ipynb(dice: random.Random) -> bytes:
    cells: list[dict[str, object]] = []
    for _ in range(30):
        cells.append({"cell_type": "markdown", "metadata": {}, "source": [_paragraph(dice)]})
        output = {"output_type": "stream", "name": "stdout", "text": [_sentence(dice)]}
        cells.append(
            {
                "cell_type": "code",
                "metadata": {},
                "execution_count": 1,
                "source": ["print('x')"],
                "outputs": [output],
            }
        )
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def _eml(dice: random.Random) -> bytes:
    message = EmailMessage()
    message["From"], message["To"] = "Ada <ada@example.org>", "bo@example.org"
    message["Subject"] = f"Übersicht: {_sentence(dice)}"
    message.set_content("\n\n".join(_paragraph(dice) for _ in range(30)))
    return message.as_bytes()


def _csv(dice: random.Random) -> bytes:
    return "\n".join(",".join(row) for row in _rows(dice, 3000)).encode()


_MAKERS: Mapping[str, Callable[[random.Random], bytes]] = {
    "pdf": _pdf,
    "docx": _docx,
    "xlsx": _xlsx,
    "pptx": _pptx,
    "html": _html,
    "epub": _epub,
    "ipynb": _ipynb,
    "eml": _eml,
    "csv": _csv,
}
