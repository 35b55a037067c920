"""A shop, a folder with hostile names and contents, and a person who opens its pages."""

from __future__ import annotations

import re
import sqlite3
from base64 import b64decode
from collections.abc import Generator
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from resource_server.explorer.addresses import page_address
from tests.transports.program import Answer, Program, request, running

SCRIPT = "<script>alert(1)</script>"
MANIFEST = """
server: {title: Tea shop}
roots:
  project: {path: project, exclude: ["secret*"], directories: {closed: {readable: false}}}
prompts:
  review:
    title: Review a file
    arguments:
      file: {description: Path in the project, required: true, complete: "file:///project/{+file}"}
      style: {enum: [short, "<b>long</b>"], default: short}
    messages:
      - {role: user, resource: "file:///project/{+file}"}
      - {role: user, text: "Review this file. Be {style}."}
      - {role: assistant, text: "I begin."}
databases:
  shop:
    url: sqlite:///shop.db
    tables:
      secrets: false
      customers: {columns: {mask: {email: hash}}}
    queries:
      of_country:
        title: Customers of a country
        sql: select name from customers where country = :country order by name
        parameters: {country: {max_length: 2}}
      dearer:
        sql: select id from orders where total > :least order by id
        parameters: {least: {type: integer}}
"""
SQL = """
create table customers (id integer primary key, name text, email text, country text);
create table orders (id integer primary key, customer_id integer references customers (id),
  status text, total real, note text);
create table books (id integer primary key, isbn text unique, title text, facts json);
create table reviews (id integer primary key, isbn text references books (isbn),
  book_id integer references books (id));
create table kinds (name text primary key);
create table things (id integer primary key, kind text references kinds (name));
create table secrets (id integer primary key, word text);
"""
CUSTOMERS = [(1, "Ada", "ada@example.org", "DE"), (2, "Bo", "bo@example.org", "FR")]


def make_shop(place: Path, *, orders: int = 120) -> Path:
    """Write the manifest, the database and the folder; return the manifest's file."""
    with sqlite3.connect(place / "shop.db") as database:
        database.executescript(SQL)
        database.executemany("insert into customers values (?, ?, ?, ?)", CUSTOMERS)
        database.execute("insert into books values (7, 'x-1', ?, '[1, [2]]')", ("long " * 30,))
        database.execute("insert into reviews values (1, 'x-1', 7)")
        database.execute("insert into kinds values ('tea')")
        database.execute("insert into things values (1, 'tea')")
        rows = [
            (n, n % 2 + 1, ("open", "paid", "sent")[n % 3], n / 2, SCRIPT if n == 1 else None)
            for n in range(1, orders + 1)
        ]
        database.executemany("insert into orders values (?, ?, ?, ?, ?)", rows)
    database.close()
    folder = place / "project"
    (folder / "docs").mkdir(parents=True)
    (folder / "README.md").write_text(
        f"# Shop\n\n{SCRIPT} [prices](docs/prices.md) [run](javascript:alert(1)) "
        "![remote](https://evil.example/x.png) ![own](docs/dot.svg)\n\n"
        "| a | b |\n|---|--:|\n| 1 | 2 |\n",
        encoding="utf-8",
    )
    (folder / "docs" / "prices.md").write_text("Prices\n", encoding="utf-8")
    svg = f"<svg xmlns='http://www.w3.org/2000/svg'>{SCRIPT}</svg>"
    (folder / "docs" / "dot.svg").write_text(svg, encoding="utf-8")
    (folder / "closed").mkdir()
    for name in ("a.txt", "b.png", "c.pdf", "d.bin", "README.md"):
        (folder / "closed" / name).write_bytes(b"closed\n")
    dot = "R0lGODdhAQABAIABAAAAAP///ywAAAAAAQABAAACAkQBADs="
    (folder / "docs" / "dot.gif").write_bytes(b64decode(dot))
    (folder / "many").mkdir()
    for number in range(120):
        (folder / "many" / f"{number}.txt").write_text("many\n", encoding="utf-8")
    (folder / "tea.json").write_text('{"tea": ["Assam", 1.50, "<b>"]}', encoding="utf-8")
    (folder / "page.html").write_text(SCRIPT, encoding="utf-8")
    (folder / "main.py").write_text("# A comment\ndef boil(litres):\n    return '<b>'\n", "utf-8")
    (folder / '"><img src=x onerror=alert(1)>.txt').write_text("odd\n", encoding="utf-8")
    (folder / "\u202egnp.txt").write_text("\u202ereversed\n", encoding="utf-8")
    (folder / "100% café?.txt").write_text("found\n", encoding="utf-8")
    (folder / "secret.txt").write_text("hidden\n", encoding="utf-8")
    file = place / "mcp-resources.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    return file


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    """Serve the shop over HTTP."""
    with running(make_shop(place), timing={"search_s": 20.0}) as started:
        yield started


def opened(program: Program, uri: str, kind: str = "", **headers: str) -> Answer:
    """Return the page of a resource; `kind` is `model/`, `source/` or `raw/`."""
    return fetched(program, f"/explore/{kind}{page_address(uri)}", **headers)


def fetched(program: Program, path: str, **headers: str) -> Answer:
    return program.ask(request("GET", path=path, **{"accept": "text/html", **headers}))


def text_of(answer: Answer) -> str:
    """Return the text of a page as a person reads it."""
    body = re.sub(r"(?s)<(script|style|head).*?</\1>", "", answer.body.decode())
    return " ".join(unescape(re.sub("<[^>]*>", " ", body)).split())


class Elements(HTMLParser):
    """The elements of a page: tags with their attributes, and where links lead."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(answer.body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def links(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for each, attributes in self.tags if each == tag]
