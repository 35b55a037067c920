"""Pages of what is too large for one: each is bounded, says so, and leads to the rest."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

import resource_server
from resource_server.explorer.markup import rendered_markdown, source_lines
from resource_server.explorer.page import ASSETS, asset
from tests.cases import for_each
from tests.explorer.shop import Elements, fetched, opened, text_of
from tests.transports.program import Answer, Program, running

MANIFEST = """
roots: {project: {path: project}}
databases: {large: {url: sqlite:///large.db}}
"""
MANY, COLUMNS, LONG = 600, 2000, 250
PAGE = 2_000_000
"""Bytes of a page, at most."""
FIRST_VIEW = 60_000
"""Compressed bytes of a page with the style and scripts of pages, at most."""
SOURCES = Path(resource_server.__file__).parent / "protocol"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Generator[Program]:
    place = tmp_path_factory.mktemp("large")
    folder = place / "project"
    (folder / "many").mkdir(parents=True)
    for number in range(MANY):
        (folder / "many" / f"{number}.txt").touch()
    lines = "\n".join(f"line = {number}" for number in range(1, 5001))
    for name, text in {
        "README.md": "some *words* and [links](a.md)\n\n" * 10_000,
        "long.md": "some *words* and [links](a.md)\n\n" * 60_000,
        "line.md": "a **b** " * 250_000,
        "lines.py": lines,
        "line.py": f"a = '{'x' * 5_000_000}'\n" * 2,
        "one.json": json.dumps([{"a": number} for number in range(100_000)]),
        "full.txt": f"{'<' * 1990}\n" * 500,
        "dense.js": f"{'1,' * 995}\n" * 200,
        "real.py": "".join(each.read_text("utf-8") for each in sorted(SOURCES.rglob("*.py"))),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    _make_database(place / "large.db")
    (place / "mcp-resources.yaml").write_text(MANIFEST, encoding="utf-8")
    with running(place / "mcp-resources.yaml") as program:
        yield program


def _make_database(file: Path) -> None:
    names = ", ".join(f"c{number} text" for number in range(1, COLUMNS))
    with sqlite3.connect(file) as database:
        database.execute(f"create table wide (id integer primary key, {names})")
        row = ", ".join("?" * COLUMNS)
        values = [*["value" * 100] * LONG, *"v" * (COLUMNS - LONG - 1)]
        rows = [(n, *values) for n in range(60)]
        database.executemany(f"insert into wide values ({row})", rows)  # noqa: S608
        database.execute("create table many (id integer primary key, body text)")
        rows = ((n, "<" * 200) for n in range(20_001))
        database.executemany("insert into many values (?, ?)", rows)
        database.execute("create table cells (id integer primary key, body text, kind text)")
        kinds = ["k" * 100_000, "l" * 100_000]
        cells = [(n, "x" * (10_000_000 if n == 1 else 100), kinds[n % 2]) for n in range(1, 9)]
        database.executemany("insert into cells values (?, ?, ?)", cells)
        database.execute("create table keyed (name text primary key, value text)")
        database.executemany("insert into keyed values (?, 'v')", [("k" * 1000,), ("a/b ~%",)])
    database.close()


def _following(page: Answer) -> str | None:
    found = [each["href"] for each in Elements(page).named("a") if each.get("rel") == "next"]
    return found[0] if found else None


@for_each(
    "uri",
    [
        *(
            f"file:///project{name}"
            for name in ("", "/many", "/long.md", "/line.md", "/lines.py", "/lines.py?lines=1-5000")
        ),
        *(f"file:///project/{name}" for name in ("line.py", "one.json", "full.txt", "dense.js")),
        *(
            f"sqlite://large/{name}"
            for name in ("wide", "wide/1", "wide/~schema", "cells", "cells/1")
        ),
        *(f"sqlite://large/{name}" for name in ("wide/~rows?limit=1000", "cells/1/~cell/body")),
    ],
)
def test_every_page_is_small(large: Program, uri: str) -> None:
    kinds = ("", "model/", "source/") if uri.startswith("file:///project/") else ("", "model/")
    for kind in kinds:
        page = opened(large, uri, kind)
        assert page.status == 200
        assert len(page.body) < PAGE


@for_each(
    "uri",
    [
        *(f"file:///project/{name}" for name in ("many", "real.py", "dense.js")),
        *("sqlite://large/wide", "sqlite://large/~schema"),
    ],
)
def test_a_first_view_is_small_when_compressed(large: Program, uri: str) -> None:
    parts = [opened(large, uri).body, *map(asset, ASSETS)]
    assert sum(len(gzip.compress(each)) for each in parts) < FIRST_VIEW


@for_each("name", ["lines.py", "lines.py?lines=1-5000", "full.txt"])
def test_pages_of_source_follow_each_other_to_the_last_line(large: Program, name: str) -> None:
    page, seen, notices = opened(large, f"file:///project/{name}"), list[str](), 0
    while True:
        seen += [each["id"] or "" for each in Elements(page).named("tr") if "id" in each]
        notices += "lines are shown" in text_of(page)
        if (following := _following(page)) is None:
            break
        page = fetched(large, following)
    assert seen == [f"L{number}" for number in range(1, len(seen) + 1)]
    assert len(seen) == (500 if name == "full.txt" else 5000)
    assert notices or name == "lines.py"


def test_cut_markdown_says_so_and_leads_to_its_source(large: Program) -> None:
    page = opened(large, "file:///project/long.md")
    assert "Only the first 200,000 of" in text_of(page)
    assert "/explore/source/file:%2F%2F/project/long.md" in Elements(page).links()


def test_a_definition_that_many_links_use_does_not_multiply() -> None:
    for use in ("[a]", "![a]"):
        text = f"[a]: x{'b' * 90_000} '{'t' * 9000}'\n\n{use * 25_000}"
        assert len(rendered_markdown(text, "file:///project/a.md", "/explore/")) < 3_000_000


def test_a_source_is_shown_without_colours_when_time_is_up() -> None:
    source = ["def a():", "    return 1"] * 10
    cells = [_cells(source_lines("\n".join(source), "a.py", "", 1, each)) for each in (0, 60)]
    assert cells[0][0] == '<span class="k">def</span> a():'
    assert cells[0][1:] == source[1:]
    assert all("<span" in each for each in cells[1])


@for_each("line", ["a\r", "\ufeffb", "c\x0cd", "e\rf", "", "g\u2028h"])
def test_every_line_of_a_source_has_its_number(line: str) -> None:
    for name in ("a.py", "a.unknown"):
        assert len(_cells(source_lines(f"{line}\n{line}\n\n", name, "text/plain", 1))) == 4


def _cells(rows: str) -> list[str]:
    return re.findall("<code>(.*?)</code>", rows)


def test_a_wide_table_shows_some_columns_and_leads_to_the_others(large: Program) -> None:
    page, seen = opened(large, "sqlite://large/wide"), set[str]()
    while True:
        headings = page.body.decode().partition("<thead>")[2].partition("</thead>")[0]
        seen |= set(re.findall("<bdi>(.*?)</bdi>", headings))
        others = re.search('<a href="([^"]*)">show others', page.body.decode())
        if others is None:
            break
        assert "columns are on this page" in text_of(page)
        page = fetched(large, others[1].replace("&amp;", "&"))
    assert len(seen) == COLUMNS


def test_a_long_cell_shows_its_beginning_and_leads_to_the_whole(large: Program) -> None:
    for uri in ("sqlite://large/cells", "sqlite://large/cells/1"):
        page = opened(large, uri)
        assert "10,000,000 characters" in text_of(page)
        assert "/explore/sqlite:%2F%2Flarge/cells/1/~cell/body" in Elements(page).links()


def test_long_values_are_no_facets(large: Program) -> None:
    assert not Elements(opened(large, "sqlite://large/cells")).named("aside")


def test_rows_are_linked_by_any_key_that_is_not_cut(large: Program) -> None:
    rows = [
        each
        for each in Elements(opened(large, "sqlite://large/keyed")).links()
        if "/keyed/" in each
    ]
    rows = [each for each in rows if not re.search("~(rows|schema|cell)", each)]
    assert len(rows) == 1
    assert "a/b ~%" in text_of(fetched(large, rows[0]))


def test_pages_of_a_folder_follow_each_other_to_the_last_entry(large: Program) -> None:
    page, seen = opened(large, "file:///project/many"), set[str]()
    while True:
        seen |= {each for each in Elements(page).links() if each.endswith(".txt")}
        if (following := _following(page)) is None:
            break
        page = fetched(large, following)
    assert len(seen) == MANY


def test_20_000_rows_asked_for_are_as_many_as_a_page_has(large: Program) -> None:
    page = opened(large, "sqlite://large/many/~rows?limit=20000")
    assert (page.status, len(page.body) < PAGE) == (200, True)
    assert 0 < page.body.count(b"<tr ") < 2000
    assert _following(page)


@pytest.mark.deep
def test_a_folder_of_200_000_entries_is_shown_page_by_page(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(200_000):
        os.mknod(folder / f"{number:06}.txt")
    (tmp_path / "mcp-resources.yaml").write_text("roots: {project: {path: project}}")
    with running(tmp_path / "mcp-resources.yaml") as program:
        page, names = opened(program, "file:///project"), list[str]()
        for _ in range(3):
            assert (page.status, len(page.body) < PAGE) == (200, True)
            names += [each[-10:] for each in Elements(page).links() if each.endswith(".txt")]
            page = fetched(program, _following(page) or "")
        assert names == [f"{number:06}.txt" for number in range(len(names))]
        assert opened(program, "file:///project", "model/").status == 200
