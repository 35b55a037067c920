"""Documents that are text: HTML, notebooks, mail, tables, and compressed text."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any

from tests.conversion.facts import Absent, Cell, Fact, Heading, Link, Ordered, Placed, Text

_LONG = 2000


def documents() -> Mapping[str, tuple[bytes, tuple[Fact, ...]]]:
    """Return documents and their facts by file name."""
    log = "".join(f"line {number} of Größe\n" for number in range(_LONG)).encode()
    log_facts = (Text("line 0 of Größe"), Text(f"line {_LONG - 1} of Größe"))
    return {
        "page.html": (_HTML.encode(), _HTML_FACTS),
        "analysis.ipynb": (_notebook(), _NOTEBOOK_FACTS),
        "invoice.eml": (_mail(), _MAIL_FACTS),
        "reply.eml": (_RAW_MAIL, _RAW_MAIL_FACTS),
        "semicolons.csv": (_table(";", "cp1252"), _TABLE_FACTS),
        "commas.csv": (_table(",", "utf-8-sig"), _TABLE_FACTS),
        "tabs.tsv": (_table("\t", "utf-8"), _TABLE_FACTS),
        "events.jsonl": (_json_lines(), _JSON_FACTS),
        "log.txt.gz": (gzip.compress(log, mtime=0), log_facts),
        "log.txt.bz2": (bz2.compress(log), log_facts),
        "log.txt.xz": (lzma.compress(log), log_facts),
    }


_HTML = """<!doctype html><html><head><meta charset="utf-8"><title>Coffee &amp; tea</title>
<style>.secret{display:none} p{margin:0}</style><script>var x = "script text";</script></head><body>
<h1>Prices</h1><p>In Zürich, see <a href="https://example.com/menu?a=1&amp;b=2">the menu</a>.</p>
<p hidden>invisible paragraph</p><p style="display:none">invisible style</p>
<p class="secret">invisible class</p>
<table><tr><th>Product</th><th>Price</th><th>Stock</th></tr><tr><td>Espresso</td><td>3.20</td>
<td>17</td></tr></table><ul><li>first item<ul><li>below it</li></ul></li></ul>
<pre><code>def brew():
    return 1</code></pre><p>the last word</p></body></html>"""
_HTML_FACTS = (
    Text("Coffee & tea"),
    Heading("Prices"),
    Link("https://example.com/menu?a=1&b=2", "the menu"),
    Cell("Espresso", "Stock", "17"),
    Ordered(("Prices", "Zürich", "Espresso", "first item", "below it", "the last word")),
    Text("def brew(): return 1"),
    Absent("invisible paragraph"),
    Absent("invisible style"),
    Absent("invisible class"),
    Absent("script text"),
)


_NOTEBOOK_FACTS = (
    Heading("Margins"),
    Text("margin = turnover * 0.17"),
    Placed("Cell 2", "turnover"),
    Text("the printed result is 17"),
    Cell("Zürich", "margin", "0.17"),
    Text("ZeroDivisionError: division by zero"),
    Text("image/png"),
    Absent("iVBORw0KGgo"),
    Absent("<td>"),
    Ordered(("Margins", "turnover", "the printed result", "ZeroDivisionError")),
)


def _notebook() -> bytes:
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(300)).decode()
    table = (
        "<table><tr><th>city</th><th>margin</th></tr><tr><td>Zürich</td><td>0.17</td></tr></table>"
    )
    outputs: list[list[dict[str, Any]]] = [
        [{"output_type": "stream", "name": "stdout", "text": ["the printed result is 17\n"]}],
        [
            {
                "output_type": "execute_result",
                "execution_count": 2,
                "metadata": {},
                "data": {"text/html": table, "text/plain": "     city  margin\n0  Zürich  0.17"},
            },
            {
                "output_type": "display_data",
                "metadata": {},
                "data": {"image/png": picture, "text/plain": "<Figure size 640x480>"},
            },
        ],
        [
            {
                "output_type": "error",
                "ename": "ZeroDivisionError",
                "evalue": "division by zero",
                "traceback": ["\x1b[31mZeroDivisionError\x1b[0m: division by zero"],
            }
        ],
    ]
    sources = ["margin = turnover * 0.17\nprint(margin)", "frame", "1 / 0"]
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Margins\n", "of the year"]}
    ]
    code: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": at,
            "source": source,
            "outputs": output,
        }
        for at, (source, output) in enumerate(zip(sources, outputs, strict=True), 1)
    ]
    return json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {"kernelspec": {"name": "python3", "language": "python"}},
            "cells": [*cells, *code],
        }
    ).encode()


_MAIL_FACTS = (
    Text("Rechnung für März"),
    Text("Jörg Müller"),
    Text("joerg@example.org"),
    Text("2026"),
    Text("Grüße aus Zürich"),
    Text("Übersicht.pdf"),
    Absent("JVBERi0xLjQK"),
    Absent("X-Internal"),
)


def _mail() -> bytes:
    message = EmailMessage()
    message["From"] = "Jörg Müller <joerg@example.org>"
    message["To"] = "bo@example.org"
    message["Subject"] = "Rechnung für März"
    message["Date"] = "Tue, 03 Mar 2026 10:00:00 +0100"
    message["X-Internal"] = "not shown"
    message.set_content("Grüße aus Zürich\n", cte="base64")
    message.add_attachment(
        b"%PDF-1.4\n" * 9, maintype="application", subtype="pdf", filename="Übersicht.pdf"
    )
    return message.as_bytes()


_RAW_MAIL = (
    b"From: =?koi8-r?Q?=F0=C5=D4=D2?= <petr@example.org>\r\nTo: a@example.org\r\n"
    b"Subject: =?utf-8?B?5pel5pys?=\r\n =?utf-8?Q?_Gr=C3=BC=C3=9Fe?=\r\n"
    b"MIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/html; charset=utf-8\r\n"
    b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"
    b'<p>Seen in Z=C3=BCrich by <a href=3D"https://example.com/mail">the =\r\nharbour</a></p>'
    b"<table><tr><th>Product</th><th>Price</th></tr><tr><td>Espresso</td><td>3.20</td></tr></table>"
    b"\r\n--b--\r\n"
)
_RAW_MAIL_FACTS = (
    Text("Петр"),
    Text("日本 Grüße"),
    Text("Seen in Zürich"),
    Link("https://example.com/mail", "the harbour"),
    Cell("Espresso", "Price", "3.20"),
)


_TABLE_FACTS = (
    Cell("customer 17", "amount", "1,70"),
    Cell(f"customer {_LONG}", "amount", "200,00"),
    Cell("customer 1", "note", "says “hello”"),
    Cell("customer 2", "note", "a, b; c"),
    Ordered(("customer 1 ", "customer 17 ", f"customer {_LONG} ")),
)


def _table(delimiter: str, encoding: str) -> bytes:
    notes = {1: "says “hello”", 2: "a, b; c"}
    rows = [("who", "amount", "note")]
    rows += [
        (f"customer {n}", f"{n // 10},{n % 10}0", notes.get(n, "Zürich"))
        for n in range(1, _LONG + 1)
    ]
    lines = (delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    return "\r\n".join(lines).encode(encoding)


_JSON_FACTS = (
    Cell("event 17", "city", "Zürich"),
    Cell(f"event {_LONG}", "city", "Zürich"),
    Cell("event 3", "extra", "late"),
)


def _json_lines() -> bytes:
    rows = [{"name": f"event {n}", "city": "Zürich"} for n in range(1, _LONG + 1)]
    rows[2]["extra"] = "late"
    return "\n".join(map(json.dumps, rows)).encode()
