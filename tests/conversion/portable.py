"""A small PDF, written by hand: one line of text a page, and a link."""

from __future__ import annotations


def pdf(*pages: str) -> bytes:
    """Return a document with these lines on its pages; an empty page has no text."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        link = f"<< /S /URI /URI (https://example.com/{at + 1}) >>"
        objects += [
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792]"
            f" /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * at} 0 R"
            f" /Annots [<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A {link} >>] >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    written, offsets = b"%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        offsets.append(len(written))
        written += f"{number} 0 obj\n{each}\nendobj\n".encode()
    entries = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return (
        written
        + (
            f"xref\n0 {size}\n0000000000 65535 f \n{entries}"
            f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(written)}\n%%EOF"
        ).encode()
    )
