"""ODS workbooks, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.conversion.formats.zipped import zipped

_URN = "urn:oasis:names:tc:opendocument:xmlns"


def ods(rows: Sequence[Sequence[str | int]]) -> bytes:
    """Return a workbook with one sheet of these rows."""
    body = "".join(f"<table:table-row>{''.join(map(_cell, row))}</table:table-row>" for row in rows)
    content = (
        f'<office:document-content xmlns:office="{_URN}:office:1.0"'
        f' xmlns:table="{_URN}:table:1.0" xmlns:text="{_URN}:text:1.0"><office:body>'
        f'<office:spreadsheet><table:table table:name="one">{body}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    return zipped({"content.xml": content})


def _cell(value: str | int) -> str:
    text = f"<text:p>{escape(str(value))}</text:p>"
    given = (
        'office:value-type="string"'
        if isinstance(value, str)
        else f'office:value-type="float" office:value="{value}"'
    )
    return f"<table:table-cell {given}>{text}</table:table-cell>"
