"""Documents with pages: PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.conversion.facts import Cell, Fact, Heading, Link, Ordered, Placed, Text
from tests.conversion.portable import pdf_of


def documents() -> Mapping[str, tuple[bytes, tuple[Fact, ...]]]:
    """Return documents and their facts by file name."""
    return {"report.pdf": (_pdf(), _FACTS)}


_ROWS = (
    ("Product", "Price", "Stock", "Status"),
    ("Espresso", "3.20", "17", ""),
    ("Filter", "", "55", "new"),
    ("Cold brew", "4.10", "", "old"),
    ("Decaf", "2.90", "8", ""),
)
_COLUMNS = (60, 200, 300, 400)
_FACTS = (
    Heading("Turnover 2026"),
    Text("the margin is 17 % in every region"),
    Ordered(("Turnover 2026", "the margin is", "Espresso", "Cold brew", "the last line")),
    Placed("Page 2", "Espresso"),
    Placed("Page 4", "the last line"),
    Link("https://example.com/report?a=1"),
    Cell("Espresso", "Stock", "17"),
    Cell("Filter", "Stock", "55"),
    Cell("Cold brew", "Status", "old"),
    Ordered(("Page 3", "picture", "Page 4")),
)


def _pdf() -> bytes:
    table = [
        (x, 700 - 18 * at, cell)
        for at, row in enumerate(_ROWS)
        for x, cell in zip(_COLUMNS, row, strict=True)
        if cell
    ]
    first = [
        (60, 720, "Turnover 2026"),
        (60, 690, "the margin is 17 % in"),
        (60, 676, "every region"),
    ]
    second = [(60, 740, "Prices of the year"), *table, (60, 500, "Prices are in francs.")]
    return placed_pdf([first, second, [], [(60, 720, "the last line")]], "Turnover 2026")


def placed_pdf(pages: Sequence[Sequence[tuple[float, float, str]]], title: str = "Page") -> bytes:
    """Return a document with words at places; the outline has one title, of the first page."""
    kids = " ".join(f"{6 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /Outlines 4 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Outlines /First 5 0 R /Last 5 0 R /Count 1 >>",
        f"<< /Title ({title}) /Parent 4 0 R /Dest [6 0 R /Fit] >>",
    ]
    link = "<< /S /URI /URI (https://example.com/report?a=1) >>"
    for at, lines in enumerate(pages):
        drawn = " ".join(f"BT /F1 11 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in lines)
        drawn = drawn or "0.5 g 100 100 300 300 re f"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Resources << /Font << /F1 3 0 R >> >> /Contents {7 + 2 * at} 0 R"
            f" /Annots [<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A {link} >>] >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    return pdf_of(objects)
