"""Makes `invoices.pdf`, a cover and 299 invoices on a page each: `python make.py`."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

HERE = Path(__file__).parent
PAGES = 300
CUSTOMERS = ("Ada Winter", "Bo Chen", "Chloe Martin", "Dagny Jonsdottir", "Edo Mori")
TEAS = (("Assam", 3), ("Earl Grey", 4), ("Gunpowder", 2), ("Mint", 3), ("Sencha", 5))
"""Teas and their cents a gram."""

Line = tuple[str, ...]
"""Texts beside each other."""


def invoice(number: int) -> Sequence[Line]:
    """Return the lines of an invoice: two teas, and what they cost."""
    bought = [(*TEAS[(number + at) % len(TEAS)], 50 + number * (7 + at) % 9 * 25) for at in (0, 1)]
    return (
        (f"Invoice INV-{number:05}",),
        (f"{date(2026, 1, 1) + timedelta(number * 365 // PAGES)}, {CUSTOMERS[number % 5]}",),
        ("Tea", "Grams", "Cents"),
        *((tea, str(grams), str(grams * cents)) for tea, cents, grams in bought),
        ("Total", "", str(sum(grams * cents for _, cents, grams in bought))),
    )


def make(file: Path = HERE / "documents/invoices.pdf") -> None:
    """Write the document: invoice 1 is on page 2, behind the cover."""
    pages = [[("Tea shop, invoices of 2026",)], *map(invoice, range(1, PAGES))]
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(PAGES))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {PAGES}/MediaBox[0 0 595 842]"
        "/Resources<</Font<</F 3 0 R>>>>>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for at, lines in enumerate(pages):
        drawn = "".join(
            f"BT/F 11 Tf {72 + 150 * column} {760 - 18 * row} Td({text})Tj ET\n"
            for row, line in enumerate(lines)
            for column, text in enumerate(line)
        )
        data = zlib.compress(drawn.encode("ascii"), 9)
        head = f"<</Filter/FlateDecode/Length {len(data)}>>stream\n".encode()
        objects.append(f"<</Type/Page/Parent 2 0 R/Contents {5 + 2 * at} 0 R>>".encode())
        objects.append(head + data + b"\nendstream")
    file.write_bytes(_document(objects))


def _document(objects: Sequence[bytes]) -> bytes:
    """Return a PDF of these objects, of which the first is the catalog."""
    written, entries = bytearray(b"%PDF-1.4\n"), "0000000000 65535 f \n"
    for number, each in enumerate(objects, 1):
        entries += f"{len(written):010} 00000 n \n"
        written += b"%d 0 obj\n%b\nendobj\n" % (number, each)
    size = len(objects) + 1
    tail = f"trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(written)}\n%%EOF\n"
    return bytes(written) + f"xref\n0 {size}\n{entries}{tail}".encode()


if __name__ == "__main__":
    make()
