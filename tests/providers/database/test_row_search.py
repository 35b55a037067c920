"""Search for rows by column values, on every engine."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resource_server.access import Access
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    NotSearchable,
    ResourceNotFound,
)
from resource_server.provider import ByteSize
from resource_server.provider.search import MatchedLine, SearchRequest
from resource_server.providers.database.options import ColumnOptions, ReadLimits, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.runtime.option_types import Duration
from tests.providers.database.conftest import ENGINES, OTHER_DRIVERS, urls_of
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.searching import Searched, searched
from tests.providers.database.sqlite_databases import write

pytestmark = [pytest.mark.anyio, pytest.mark.guarantee("other-drivers-answer-the-same")]
url = urls_of(*ENGINES, *OTHER_DRIVERS)

TEAS = (
    "create table teas (id integer primary key, name varchar(99), maker varchar(99),"
    " note varchar(99))",
    "insert into teas values (1, 'Assam', 'Ceylon Tea Co', 'strong'),"
    " (2, 'Earl Grey', 'Twinings', 'a TEA with bergamot'), (3, 'Sencha', NULL, 'green tea'),"
    " (4, '100% Darjeeling', 'a_b', 'tea!')",
)
NAME = TableOptions(search=("name",))
NOTES = TableOptions(search=("note", "maker"))


# -- matches


async def test_a_row_is_found_by_a_part_of_a_value_ignoring_case(owner: Owner) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NOTES}) as it:
        for text in ("tea", "TEA", "tEa"):
            assert await it.found(text) == ["teas/1", "teas/2", "teas/3", "teas/4"]
        assert await it.found("bergamot") == ["teas/2"]
        assert await it.found("twin") == ["teas/2"]
        assert await it.found("coffee") == []


async def test_a_hit_is_the_listed_row_with_the_matching_column(
    owner: Owner,
) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NOTES}) as it:
        [first, *_] = await it.hits("tea")
        assert first.lines == (MatchedLine(3, "maker: Ceylon Tea Co"),)
        [both, *_] = await it.hits("n")
        assert both.lines == (
            MatchedLine(3, "maker: Ceylon Tea Co"),
            MatchedLine(4, "note: strong"),
        )
        children = await it.provider.list(first.resource.path[:-1], after=None, limit=10)
        assert first.resource in children
        described = await it.provider.metadata(first.resource.path)
        assert described.version == first.resource.version


async def test_columns_that_are_not_named_are_not_searched(owner: Owner) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NAME}) as it:
        assert await it.found("twinings") == []
        assert await it.found("earl") == ["teas/2"]
    for off in (False, ()):
        async with searched(owner, tables={"teas": TableOptions(search=off)}) as it:
            assert await it.found("earl") == []


async def test_text_is_searched_by_default(owner: Owner) -> None:
    blob = "bytea" if owner.engine == "postgresql" else "blob"
    kind = {
        "postgresql": "mood",
        "duckdb": "mood",
        "mariadb": "enum('happy', 'sad')",
    }.get(owner.engine, "varchar(9)")
    # Other drivers show values of JSON and of enumerations, and compare them with nothing.
    shown = (
        {"sqlite": ["j"], "postgresql": ["j", "m"], "mariadb": ["m"]}[owner.engine]
        if owner.is_generic
        else []
    )
    if kind == "mood":
        await owner.run("create type mood as enum ('happy', 'sad')")
    await owner.run(
        f"create table t (id integer primary key, name varchar(50), j json, m {kind},"
        f" n integer, d date, b {blob}, pin varchar(9), hid varchar(9))",
        "insert into t values (4711, 'Earl Grey', '{\"leaf\": \"green\"}', 'happy', 42,"
        " '2026-01-31', NULL, 'pin77', 'hid88')",
        "create view short as select id, name from t where id > 0",
    )
    hidden = ColumnOptions(hide=("hid",), mask={"pin": "hash"})
    tables = {"t": TableOptions(columns=hidden), "short": TableOptions(key=("id",))}
    async with searched(owner, tables=tables) as it:
        for text, found in (
            ("earl", ["short/4711", "t/4711"]),
            ("green", [] if "j" in shown else ["t/4711"]),
            ("happy", [] if "m" in shown else ["t/4711"]),
            *((text, []) for text in ("42", "2026", "4711", "pin77", "hid88")),
        ):
            assert await it.found(text) == found
        unsearched = ["id", *shown, "n", "d", "pin"]
        more = f" and {len(unsearched) - 5} more" if unsearched[5:] else ""
        page = await it.page("4711")
        assert it.unsearched(page) == {
            "short": "column id",
            "t": f"columns {', '.join(unsearched[:5])}{more}",
        }
        columns = ", ".join([*shown, "pin"])
        assert it.unsearched(await it.page("nowhere")) == {
            "t": f"column{'s' * bool(shown)} {columns}"
        }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("%", ["teas/4"]),
        ("100%", ["teas/4"]),
        ("_", ["teas/4"]),
        ("a_b", ["teas/4"]),
        ("!", ["teas/4"]),
        ("a!", ["teas/4"]),
        ("\\", []),
        ("'", []),
        ("' or '1'='1", []),
        ("*", []),
        ("t.a", []),
        ("\0", []),
        ("x" * 1000, []),
    ],
)
async def test_characters_special_to_sql_are_matched_literally(
    owner: Owner, text: str, found: list[str]
) -> None:
    await owner.run(*TEAS)
    tables = {"teas": TableOptions(search=("name", "maker", "note"))}
    async with searched(owner, tables=tables) as it:
        assert await it.found(text) == found


async def test_letters_beyond_ascii_are_found_ignoring_case_too(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name varchar(50))")
    rows = ["Crème brûlée", "CRÈME", "creme", "ПРИВЕТ", "茶と水", "straße", "e\u0301tude", "🍵 tea"]
    await owner.insert("t", *enumerate(rows))
    async with searched(owner, tables={"t": NAME}) as it:
        assert await it.found("crème") == ["t/0", "t/1"]
        assert await it.found("ÈM") == ["t/0", "t/1"]
        assert await it.found("creme") == ["t/2"]
        assert await it.found("привет") == ["t/3"]
        assert await it.found("茶") == ["t/4"]
        assert await it.found("STRASSE") == []
        assert await it.found("straße") == ["t/5"]
        assert await it.found("🍵") == ["t/7"]
        assert await it.found("🍺") == []


async def test_an_expression_is_matched_alike_on_every_engine(owner: Owner) -> None:
    await owner.run(*TEAS)
    tables = {"teas": TableOptions(search=("name", "note"))}
    async with searched(owner, tables=tables) as it:
        assert await it.found(r"^\d+% D", is_pattern=True) == ["teas/4"]
        assert await it.found(r"tea\b", is_pattern=True) == ["teas/3", "teas/4"]
        assert await it.found(r"(?i)tea", is_pattern=True) == ["teas/2", "teas/3", "teas/4"]
        assert await it.found(r"Sencha$|^Assam", is_pattern=True) == ["teas/1", "teas/3"]
        assert await it.found(".", is_pattern=True, limit=2) == [f"teas/{n}" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("text", ["(", "a{2000}", "(?=a)", "\\1", "[z-a]"])
async def test_an_invalid_expression_is_refused(owner: Owner, text: str) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NAME}) as it:
        with pytest.raises(InvalidParameter, match="RE2"):
            await it.page(text, is_pattern=True)


async def test_an_expression_prone_to_backtracking_finishes_in_time(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name text)")
    await owner.insert("t", (1, "a" * 5000))
    async with searched(owner, tables={"t": NAME}) as it:
        started = time.process_time()
        assert await it.found("(a+)+$b", is_pattern=True) == []
        assert await it.found("(a|aa)+c", is_pattern=True) == []
        assert time.process_time() - started < 10


async def test_a_long_value_is_truncated_around_the_match(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name text)")
    await owner.insert("t", (1, "x" * 5000 + "needle" + "y" * 5000), (2, "one\ntwo needle\nthree"))
    async with searched(owner, tables={"t": NAME}) as it:
        one, two = await it.hits("needle")
        assert "needle" in one.lines[0].text
        assert len(one.lines[0].text) < 250
        assert two.lines == (MatchedLine(2, "name: two needle"),)


async def test_only_the_part_of_a_value_visible_in_its_row_is_searched(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name text)")
    await owner.insert("t", (1, "x" * 90 + "needle"), (2, "x" * 110 + "needle"))
    limits = ReadLimits(cell=ByteSize(100))
    async with searched(owner, tables={"t": NAME}, limits=limits) as it:
        assert await it.found("needle") == ["t/1"]
        assert await it.found("ne{2}dle", is_pattern=True) == ["t/1"]


async def test_values_of_all_types_except_blobs_are_searched_as_text(owner: Owner) -> None:
    blob = "bytea" if owner.engine == "postgresql" else "blob"
    await owner.run(
        f"create table t (id integer primary key, n integer, d date, m numeric(9, 2), b {blob})",
        "insert into t values (1, 4711, '2026-01-31', 12.50, NULL)",
    )
    tables = {"t": TableOptions(search=("id", "n", "d", "m", "b"))}
    async with searched(owner, tables=tables) as it:
        if owner.is_generic:  # by LIKE, which is for texts
            assert await it.found("4711") == await it.found("12.5") == []
            pytest.skip("other drivers search texts alone")
        assert await it.found("4711") == ["t/1"]
        assert await it.found("2026-01") == ["t/1"]
        assert await it.found("12.5") == ["t/1"]
        [hit] = await it.hits("71")
        assert hit.lines == (MatchedLine(2, "n: 4711"),)


async def test_tables_are_searched_in_the_order_of_their_paths(owner: Owner) -> None:
    for name in ("b", "a", "c"):
        await owner.run(f"create table {name} (id integer primary key, name varchar(9))")
        await owner.insert(name, (1, "tea"), (2, "tea"))
    tables = {"*": NAME}
    async with searched(owner, tables=tables) as it:
        every = ["a/1", "a/2", "b/1", "b/2", "c/1", "c/2"]
        for limit in (1, 2, 3, 4, 5, 6, 7):
            assert await it.found("tea", limit=limit) == every


async def test_a_view_and_a_key_of_several_columns_are_searched(owner: Owner) -> None:
    await owner.run(
        "create table items (a integer, b varchar(9), name varchar(9), primary key (a, b))",
        "create view short as select a, b, name from items where a = 1",
    )
    await owner.insert("items", (1, "x/y", "tea"), (1, "z", "tea"), (2, "..", "tea"), (2, "k", "-"))
    tables = {"items": NAME, "short": TableOptions(search=("name",), key=("a", "b"))}
    async with searched(owner, tables=tables) as it:
        rows = ["items/1/~tx~2Fy", "items/1/z", "items/2/~t.."]
        for limit in (1, 2, 10):
            found = await it.found("tea", limit=limit)
            assert found == [*rows, "short/1/~tx~2Fy", "short/1/z"]


@pytest.mark.parametrize(
    ("below", "gaps"),
    [
        ("ab/a/b/c", ["ab"]),
        ("~tab/a/b/c", ["~tab"]),
        ("~tab", ["~tab"]),
        ("ab/a/b/c/~cell/body", []),
        ("~tab/~schema", []),
    ],
)
async def test_a_search_below_any_spelling_of_an_address_finds_what_is_there(
    owner: Owner, below: str, gaps: list[str]
) -> None:
    await owner.run(
        "create table ab (p varchar(9), q varchar(9), n integer, body varchar(20), "
        "primary key (p, q))",
        "insert into ab values ('a/b', 'c', 5, 'the body 5')",
    )
    async with searched(owner) as it:
        sought = "body" if below.endswith("~schema") else "body 5"
        page = await it.page(sought, below=tuple(below.split("/")))
        (hit,) = page.hits
        assert it.short(hit).startswith(below)
        assert [gap.path[-1] for gap in page.unsearched] == gaps


async def test_rows_without_an_address_are_skipped(owner: Owner) -> None:
    await owner.run("create table loose (name varchar(9))", "insert into loose values ('tea')")
    tables = {"loose": NAME}
    async with searched(owner, tables=tables) as it:
        found = await it.found("tea")
        # Two engines number the rows of every table, though not for other drivers.
        numbers = {"sqlite": ["loose/1"], "duckdb": ["loose/0"]}
        assert found == ([] if owner.is_generic else numbers.get(owner.engine, []))


async def test_an_unreadable_table_does_not_hide_hits_in_others(owner: Owner) -> None:
    await owner.run(*TEAS, "create table base (id integer primary key, name varchar(9))")
    await owner.run("create view broken as select id, name from base")
    if owner.engine != "postgresql":  # there the view would go as well
        await owner.run("drop table base")
    tables = {"*": TableOptions(search=("name",), key=("id",))}
    async with searched(owner, tables=tables) as it:
        assert await it.found("assam") == ["teas/1"]


async def test_a_failing_row_filter_does_not_hide_hits_in_other_tables(owner: Owner) -> None:
    where = {
        "sqlite": "json('no JSON') is not null",
        "postgresql": "1 / (id - 1) > 0",
        "mariadb": "(select 1 union select 2) = 1",
        "duckdb": "cast('x' || id as integer) > 0",
    }[owner.engine]
    await owner.run(*TEAS, "create table a (id integer primary key, name varchar(9))")
    await owner.insert("a", (1, "assam"))
    async with searched(owner, tables={"a": NAME, "teas": NAME}) as it:
        assert await it.found("assam") == ["a/1", "teas/1"]
    tables = {"a": TableOptions(search=("name",), where=where), "teas": NAME}
    async with searched(owner, tables=tables) as it:
        assert await it.found("assam") == ["teas/1"]
        assert await it.found("a.sam", is_pattern=True) == []
        assert await it.found("As+am", is_pattern=True) == ["teas/1"]


# -- several words, globs and counts


async def test_a_row_matches_several_words_in_one_column_or_in_several(owner: Owner) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NOTES}) as it:
        words: dict[str, Any] = {"words": ("TEA", "bergamot")}
        [hit] = await it.hits("", **words)
        assert (it.short(hit), hit.matches) == ("teas/2", 1)
        assert hit.lines == (MatchedLine(4, "note: a TEA with bergamot"),)
        assert await it.found("", **words, together="document") == []
        words = {"words": ("tea", "strong")}
        assert await it.found("", **words) == []
        [hit] = await it.hits("", **words, together="document")
        assert it.short(hit) == "teas/1"
        words = {"words": ("tea", "twin", "nothing")}
        assert await it.found("", **words, together="document") == []
        assert await it.found("", **words, together="most") == ["teas/2"]


async def test_case_counts_where_it_is_asked_for(owner: Owner) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NOTES}) as it:
        assert await it.found("TEA", match_case=True) == ["teas/2"]


async def test_a_glob_chooses_tables_and_rows(owner: Owner) -> None:
    await owner.run(*TEAS, "create table cups (id integer primary key, note varchar(99))")
    await owner.run("insert into cups values (1, 'tea cup')")
    tables = {"teas": NOTES, "cups": TableOptions(search=("note",))}
    async with searched(owner, tables=tables) as it:
        assert await it.found("tea", files="cups") == ["cups/1"]
        assert await it.found("tea", files="!tea*", limit=1) == ["cups/1"]
        assert await it.found("tea", files="teas/[23]") == ["teas/2", "teas/3"]
        assert await it.found("tea", "names", files="cup*") == []
        assert await it.found("*s", "names", files="cup*") == ["cups"]


async def test_the_columns_that_match_after_a_full_page_are_counted(owner: Owner) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NOTES}) as it:
        page = await it.page("a", limit=1, count_s=30.0)
        assert (len(page.hits), page.hits[0].matches) == (1, 1)
        assert (page.beyond, page.is_counted) == (4, True)
        page = await it.page("n", limit=3, count_s=30.0)
        assert (page.next, page.is_counted) == (None, True)
        page = await it.page("a", limit=1, count_s=0.0)
        assert (page.beyond, page.is_counted) == (0, False)


async def test_hidden_rows_columns_and_masked_values_are_not_counted(owner: Owner) -> None:
    await owner.run(*TEAS, "insert into teas values (5, 'a', 'a', 'a a a')")
    for options, count in (
        (TableOptions(search=("note", "maker")), 6),
        (TableOptions(search=("note", "maker"), where="id < 5"), 4),
        (TableOptions(search=("note", "maker"), columns=ColumnOptions(hide=("note",))), 2),
        (TableOptions(search=("note", "maker"), columns=ColumnOptions(mask={"note": "hash"})), 2),
    ):
        async with searched(owner, tables={"teas": options}) as it:
            page = await it.page("a", limit=1, count_s=30.0)
            assert (page.beyond, page.is_counted) == (count, True)


async def test_a_table_without_searched_columns_names_those_that_are_searched(owner: Owner) -> None:
    await owner.run(*TEAS, "create table cups (id integer primary key, note varchar(99), pin int)")
    await owner.run(*(f"create table t{n} (id integer primary key, secret int)" for n in (1, 2, 3)))
    hidden = ColumnOptions(hide=("maker",), mask={"name": "hash"})
    tables = {
        "teas": TableOptions(search=("note", "maker", "name"), columns=hidden),
        "cups": TableOptions(search=False),
        "t1": TableOptions(search=("secret",), rows=False),
        "t2": False,
        "t3": TableOptions(search=("secret",), listed=False),
    }
    async with searched(owner, tables=tables) as it:
        with pytest.raises(NotSearchable) as caught:
            await it.page("x", below=("cups",))
        said = "no column of cups can be searched; those that can be: teas (note)"
        assert str(caught.value) == said
        page = await it.page("nowhere")
        assert it.unsearched(page) == {"cups": "search is off", "teas": "column name"}
        assert page.looked_at == 4 + len(page.unsearched)


async def test_where_no_column_is_searched_a_search_says_how_text_is_found(owner: Owner) -> None:
    await owner.run(*TEAS)
    how = "a filter finds text in one: …/~rows?where.COLUMN.like=%25text%25"
    async with searched(owner, tables={"*": TableOptions(search=False)}) as it:
        assert it.unsearched(await it.page("nowhere")) == {"teas": "search is off"}
        with pytest.raises(NotSearchable) as caught:
            await it.page("x", below=("teas",))
        assert str(caught.value) == f"no column of teas can be searched; {how}"


async def test_a_table_of_other_scopes_is_not_named_as_searchable(owner: Owner) -> None:
    await owner.run(*TEAS, "create table cups (id integer primary key, note varchar(99))")
    tea = TableOptions(search=("note",), access=Access(scopes=("tea",)))
    tables = {"teas": tea, "cups": TableOptions(search=False)}
    whole = Database(url=owner.url, tables=tables)
    for scopes, named in (
        (frozenset[str](), "a filter finds"),
        (frozenset(("tea",)), "those that can be: teas (note)"),
    ):
        async with whole.narrowed(scopes) as provider:
            it = Searched(provider, owner.prefix)
            with pytest.raises(NotSearchable, match=re.escape(f"searched; {named}")):
                await it.page("x", below=("cups",))


# -- hidden data


KEPT = {
    "hidden": TableOptions(search=("name", "note"), columns=ColumnOptions(hide=("note",))),
    "masked": TableOptions(search=("name", "note"), columns=ColumnOptions(mask={"note": "hash"})),
    "masked in another case": TableOptions(
        search=("NAME", "NOTE"), columns=ColumnOptions(mask={"Note": "last4"})
    ),
    "without rows": TableOptions(search=("note",), rows=False),
    "hidden table": False,
    "not exposed by its key": TableOptions(search=("note",), columns=ColumnOptions(hide=("id",))),
}


@pytest.mark.parametrize("options", KEPT.values(), ids=KEPT)
async def test_hidden_and_masked_values_are_not_found(owner: Owner, options: Any) -> None:
    if owner.engine == "duckdb" and options == KEPT["not exposed by its key"]:
        pytest.skip("DuckDB numbers the rows of every table")
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NOTES}) as it:
        assert await it.found("bergamot") == ["teas/2"]
    async with searched(owner, tables={"teas": options}) as it:
        assert await it.found("bergamot") == []
        assert await it.found("berg.mot", is_pattern=True) == []
        assert await it.found(".", is_pattern=True, limit=1) == (
            [f"teas/{n}" for n in (1, 2, 3, 4)] if options and "name" in _lower(options) else []
        )


def _lower(options: TableOptions) -> Sequence[str]:
    return [name.lower() for name in options.search or ()] if options.search is not True else []


async def test_masked_values_are_neither_quoted_nor_revealed_by_row_counts(
    owner: Owner,
) -> None:
    await owner.run(*TEAS)
    options = TableOptions(search=("name", "note"), columns=ColumnOptions(mask={"note": "redact"}))
    async with searched(owner, tables={"teas": options}) as it:
        pages = [await it.page(text) for text in ("bergamot", "no such thing", "strong")]
        assert len({(len(page.hits), page.next, page.looked_at) for page in pages}) == 1
        [hit] = await it.hits("earl")
        assert [line.text for line in hit.lines] == ["name: Earl Grey"]


async def test_a_row_filter_applies_to_searches(owner: Owner) -> None:
    await owner.run(*TEAS)
    for where, found in (("id <> 2", []), ("id > 0", ["teas/2"])):
        options = TableOptions(where=where)
        async with searched(owner, tables={"teas": options}) as it:
            assert await it.found("bergamot") == found
            page = await it.page("no such thing")
            assert page.looked_at == (4 if found else 3)
            below = ("teas", "2")
            if found:
                assert await it.found("bergamot", below=below) == ["teas/2"]
            else:
                with pytest.raises(ResourceNotFound):
                    await it.page("bergamot", below=below)


async def test_a_table_is_not_searched_without_its_scopes(owner: Owner) -> None:
    await owner.run(*TEAS)
    tables = {"teas": TableOptions(search=("note",), access=Access(scopes=("tea",)))}
    whole = Database(url=owner.url, tables=tables)
    for scopes, found in ((frozenset[str](), []), (frozenset(("tea",)), ["teas/2"])):
        async with whole.narrowed(scopes) as provider:
            it = Searched(provider, owner.prefix)
            assert await it.found("bergamot") == found
            assert ("teas" in await it.found("teas", "names")) == bool(found)
            assert bool(await it.found("maker", "names")) == bool(found)


# -- pages


async def test_pages_continue_exactly_while_rows_are_added_and_removed(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name varchar(9))")
    await owner.insert("t", *((n, "tea") for n in range(0, 40, 2)))
    async with searched(owner, tables={"t": NAME}) as it:
        first = await it.page("tea", limit=5)
        assert [it.short(hit) for hit in first.hits] == [f"t/{n}" for n in range(0, 10, 2)]
        await owner.run("delete from t where id in (8, 12)")
        await owner.insert("t", (3, "tea"), (11, "tea"))
        rest = await it.page("tea", limit=100, after=first.next)
        expected = [n for n in (*range(10, 40, 2), 11) if n != 12]
        assert [it.short(hit) for hit in rest.hits] == [f"t/{n}" for n in sorted(expected)]
        assert rest.next is None


@pytest.mark.parametrize("after", ["x", "", ".", "0123456789abcdef", "0123456789abcdef.zz", "\0"])
async def test_an_invalid_search_cursor_is_refused(owner: Owner, after: str) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NAME}) as it:
        with pytest.raises(InvalidParameter):
            await it.page("a", after=after)


async def test_a_search_cursor_of_a_changed_table_is_refused(owner: Owner) -> None:
    await owner.run(*TEAS)
    async with searched(owner, tables={"teas": NAME}) as it:
        page = await it.page("a", limit=1)
        await owner.run("alter table teas add column more integer")
        await it.provider._exposed.state()  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(InvalidParameter, match="begin again"):
            await it.page("a", limit=1, after=page.next)


async def test_a_search_with_short_deadlines_progresses_and_finds_everything(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name varchar(9))")
    await owner.insert("t", *((n, "tea" if n % 7 == 0 else "-") for n in range(700)))
    async with searched(owner, tables={"t": NAME}) as it:
        found = await it.found("tea", within=-10.0, limit=30)
        assert found == [f"t/{n}" for n in range(0, 700, 7)]


async def test_a_table_that_takes_too_long_is_named_and_hides_no_other(owner: Owner) -> None:
    await owner.run("create table a (id integer primary key, name varchar(9))")
    await owner.run("create table b (id integer primary key, name varchar(9))")
    await owner.insert("a", (1, "tea"))
    await owner.run("create table c (id integer primary key, name varchar(9))")
    await owner.insert("b", (1, "tea"))
    await owner.insert("c", (1, "tea"))
    tables = {
        "a": NAME,
        "b": TableOptions(search=("name",), where=f"id = 1 and ({owner.endless}) > 0"),
    }
    async with searched(owner, tables=tables) as it:
        page = await it.page("tea", within=1.0)
        assert [it.short(hit) for hit in page.hits] == ["a/1"]
        assert page.next is not None
        page = await it.page("tea", within=0.0, after=page.next)
        assert (page.hits, it.unsearched(page)) == ([], {"b": "takes too long"})
        found = await it.found("tea", within=0.0, after=page.next)
        assert found == ["c/1"]
        with pytest.raises(DeadlineExceeded):
            await it.page("tea", within=0.0, below=("b",))
    limits = ReadLimits(query_timeout=Duration(1.0), timeout=Duration(30))
    async with searched(owner, tables={"b": tables["b"]}, limits=limits) as it:
        with pytest.raises(DeadlineExceeded):
            await it.page("tea", within=60.0, below=("b",))
        assert await it.found("tea", within=60.0) == ["a/1", "c/1"]


async def test_a_cancelled_search_does_not_block_others(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name text)")
    await owner.insert("t", *((n, "x" * 20_000) for n in range(300)))
    async with searched(owner, tables={"t": NAME}) as it:
        for turns in range(0, 60, 5):
            task = asyncio.create_task(it.page("(x+x+)+y", is_pattern=True))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert await it.found("xyz") == []


async def test_the_loop_is_not_blocked_by_a_long_search(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name text)")
    await owner.insert("t", *((n, "x" * 30_000) for n in range(400)))
    async with searched(owner, tables={"t": NAME}) as it:
        assert await it.hits("a+", is_pattern=True) == []  # imports what the first search needs
        shares: list[float] = []
        for _ in range(3):  # one of them without a collection of garbage
            turns, longest, began = 0, 0.0, time.process_time()
            task = asyncio.create_task(it.hits("(x+x+)+y", is_pattern=True))
            while not task.done():
                started = time.thread_time()
                await asyncio.sleep(0)
                turns, longest = turns + 1, max(longest, time.thread_time() - started)
            assert await task == []
            assert turns > 100
            shares.append(longest / (time.process_time() - began))
        # Shares of processor time, which do not depend on other processes.
        assert min(shares) < 0.1


async def test_progress_reports_the_number_of_rows_searched(owner: Owner) -> None:
    await owner.run("create table t (id integer primary key, name varchar(9))")
    await owner.insert("t", *((n, "-") for n in range(500)))
    told: list[int] = []
    async with searched(owner, tables={"t": NAME}) as it:
        found = await it.provider.search(
            SearchRequest(text="tea", where="text", on_progress=told.append),
            below=(),
            after=None,
            limit=5,
            deadline=time.monotonic() + 30,
        )
    assert sum(told) == found.looked_at == 500
    assert len(told) > 1


# -- SQLite, where any column may have values of any type


async def test_sqlite_searches_invalid_unicode_and_numbers_but_not_blobs(
    tmp_path: Path,
) -> None:
    write(
        tmp_path / "it.db",
        "create table t (id integer primary key, name text);"
        "insert into t values (1, cast(x'74656120ff' as text)), (2, 12.5), (3, x'746561'),"
        " (4, 'tea'), (5, NULL);",
    )
    async with (
        owner_of(f"sqlite:///{tmp_path}/it.db") as owner,
        searched(owner, tables={"t": NAME}) as it,
    ):
        assert await it.found("tea") == ["t/1", "t/4"]
        assert await it.found("t.a", is_pattern=True) == ["t/1", "t/4"]
        assert await it.found("2.5") == ["t/2"]


async def test_an_oversized_sqlite_value_hides_no_other_row(tmp_path: Path) -> None:
    path = write(tmp_path / "it.db", "create table t (id integer primary key, name text);")
    connection = sqlite3.connect(path)
    with connection:
        rows = [(n, "tea" if n != 50 else "x" * (17 * 1024 * 1024)) for n in range(100)]
        connection.executemany("insert into t values (?, ?)", rows)
    connection.close()
    async with (
        owner_of(f"sqlite:///{path}") as owner,
        searched(owner, tables={"t": NAME}) as it,
    ):
        assert await it.found("tea") == [f"t/{n}" for n in range(100) if n != 50]
        assert await it.found("t.a", is_pattern=True) == [f"t/{n}" for n in range(100) if n != 50]


async def test_keys_of_any_sqlite_type_can_continue_a_search(tmp_path: Path) -> None:
    write(
        tmp_path / "it.db",
        "create table t (k primary key, name text) without rowid;"
        "insert into t values (1, 'tea'), (2.5, 'tea'), ('a', 'tea'), (cast(x'ff' as text), 'tea'),"
        " (x'00ff', 'tea'), ('', 'tea');",
    )
    async with (
        owner_of(f"sqlite:///{tmp_path}/it.db") as owner,
        searched(owner, tables={"t": NAME}) as it,
    ):
        every = await it.found("tea")
        assert len(every) == 6
        for limit in (1, 2, 3):
            assert await it.found("tea", limit=limit) == every


_NAMES = st.text(st.sampled_from("aAb%_!\\'é茶 "), max_size=5)


async def test_rows_are_found_wherever_they_are_in_a_large_table(owner: Owner) -> None:
    await owner.run(
        "create table t (a integer, b varchar(20), name varchar(50), note varchar(50),"
        " primary key (a, b))"
    )
    numbers = {
        "sqlite": "(with recursive c(x) as (select 0 union all select x + 1 from c"
        " where x < 39999) select x from c)",
        "mariadb": "(select seq as x from seq_0_to_39999)",
    }.get(owner.engine, "(select cast(x as integer) as x from generate_series(0, 39999) as g(x))")
    text = {"mariadb": "char"}.get(owner.engine, "varchar(20)")
    await owner.run(
        f"insert into t select cast(x / 100 as {'signed' if text == 'char' else 'integer'}),"
        f" cast(x as {text}), case when x % 9000 = 8999 then 'Earl GREY'"
        f" when x >= 30000 and x < 30300 then 'dense' else 'name' end,"
        f" case when x = 20000 then 'grey or earl' else 'plain' end from {numbers} n"
    )
    tables = {"t": TableOptions(where="b <> '17999'")}
    async with searched(owner, tables=tables, interval=Duration(60)) as it:

        async def numbers_of(text: str, **asked: Any) -> list[int]:
            return [int(path.rpartition("/")[2]) for path in await it.found(text, **asked)]

        for limit in (1, 2, 100):
            assert await numbers_of("grey", limit=limit) == [8999, 20000, 26999, 35999]
        assert await numbers_of("dense", limit=70) == [*range(30000, 30300)]
        assert await numbers_of("", words=("GREY", "earl")) == [8999, 20000, 26999, 35999]
        assert await numbers_of("", words=("or", "name"), together="document") == [20000]
        assert await numbers_of("", words=("or", "earl", "x"), together="most") == [20000]
        page = await it.page("nothing")
        assert (page.looked_at, page.next) == (39999, None)
        looked_at, after = 0, None
        while True:
            page = await it.page("grey", limit=1, after=after)
            looked_at, after = looked_at + page.looked_at, page.next
            if after is None:
                break
        assert looked_at == 39999


_NO_INDEX = "other drivers tell of no index of words"


async def test_an_index_of_trigrams_changes_no_answer(owner: Owner) -> None:
    if owner.is_generic:
        pytest.skip(_NO_INDEX)
    if owner.engine == "postgresql":
        await owner.run(
            "create extension if not exists pg_trgm with schema public",
            "create table t (id integer primary key, name varchar(999), note text)",
            "create index on t using gin (name gin_trgm_ops, note gin_trgm_ops)",
        )
    elif owner.engine == "sqlite":
        await owner.run("create virtual table t using fts5(name, note, tokenize = 'trigram')")
    else:
        pytest.skip("other engines have no index of parts of words")
    columns = "rowid, name, note" if owner.engine == "sqlite" else "id, name, note"
    rows = [
        *((n, f"tea {n}", None if n % 3 else "Crème BRÛLÉE") for n in range(1, 300)),
        (300, 'say "hush" a_b% OR NOT', "needles in hay"),
        (301, "K 茶と水 straße", "İstanbul TITLE"),
        (302, "x" * 500, "needle  hay"),
    ]
    for row in rows:
        await owner.rows(f"insert into t ({columns}) values (?, ?, ?)", *row)
    asked: list[tuple[str, dict[str, Any]]] = [
        *((text, {}) for text in ("needle", "NEEDLES", "tea 1", "ea", "brûlée", "crème", "茶と水")),
        *((text, {}) for text in ('"hush"', "a_b%", "OR NOT", "title", "stan", "Kkk", "x" * 300)),
        ("needle", {"match_case": True}),
        ("", {"words": ("needle", "hay")}),
        ("", {"words": ("needle", "hush"), "together": "document"}),
        ("", {"words": ("needle", "hush", "nothing"), "together": "most"}),
        ("", {"words": ("tea", "brûlée"), "together": "document", "limit": 7}),
    ]
    async with searched(owner) as it:
        table = (await it.provider._exposed.infos())[0]  # pyright: ignore[reportPrivateUsage]
        exposed = await it.provider._exposed.get(table.name)  # pyright: ignore[reportPrivateUsage]
        assert exposed.table.trigrams == ("name", "note")
        found = [await it.hits(text, **dict(each)) for text, each in asked]
        assert (await it.page("nothing")).looked_at in {0, len(rows)}
    assert all(found[:2])
    if owner.engine == "sqlite":
        await owner.run("create table plain (name varchar(99), note text)")
        await owner.run("insert into plain (rowid, name, note) select rowid, name, note from t")
        await owner.run("drop table t", "alter table plain rename to t")
    else:
        await owner.run("drop index t_name_note_idx")
    async with searched(owner) as it:
        for (text, each), before in zip(asked, found, strict=True):
            now = await it.hits(text, **dict(each))
            assert [(it.short(hit), hit.lines) for hit in now] == [
                (it.short(hit), hit.lines) for hit in before
            ]


async def test_the_text_of_a_full_text_table_is_searched_once(owner: Owner) -> None:
    if owner.engine != "sqlite" or owner.is_generic:
        pytest.skip("full-text tables are SQLite's, and other drivers do not know their rows")
    await owner.run(
        "create table docs (id integer primary key, body text)",
        "create virtual table texts using fts5(body, content='docs', content_rowid='id')",
        "create virtual table own using fts5(body)",
        "create virtual table words using fts5vocab(own, row)",
        "insert into docs values (1, 'tea')",
        "insert into texts (texts) values ('rebuild')",
        "insert into own (rowid, body) values (7, 'green tea')",
    )
    async with searched(owner) as it:
        assert await it.found("TEA") == ["docs/1", "own/7"]
        assert not (await it.page("nothing")).unsearched


_LETTERS = "create table letters (id integer primary key, title varchar(50), body text{})"
_SLOW_IN_POSTGRES = (
    "create function slow(integer) returns boolean language plpgsql cost 100000 as"
    " 'begin perform pg_catalog.pg_sleep(0.005); return true; end'"
)
_SLOW_IN_SQLITE = (
    "(with recursive c(x) as (select rowid union all select x + 1 from c"
    " where x < rowid + 20000) select count(*) from c) > 0"
)
_TWO_MILLION = "replace(" * 4 + "pad" + ", 'a', 'aaaaaaaaaa')" * 4
_WORD_INDEXES: list[tuple[str, Sequence[str], str | None]] = [
    (
        "sqlite",
        (
            _LETTERS.format(", pad text default ''"),
            "create virtual table words using fts5(title, body, content='letters',"
            " content_rowid='id')",
        ),
        None,  # a condition would hide the table of words: a column is slow
    ),
    ("sqlite", ("create virtual table letters using fts5(title, body)",), _SLOW_IN_SQLITE),
    (
        "postgresql",
        (
            _SLOW_IN_POSTGRES,
            _LETTERS.format(""),
            "create index on letters using gin (to_tsvector('english', title || ' ' || body))",
        ),
        "slow(id)",
    ),
    (
        "postgresql",
        (
            _SLOW_IN_POSTGRES,
            _LETTERS.format(
                ", words tsvector generated always as (setweight(to_tsvector('simple',"
                " coalesce(title, '')), 'A') || to_tsvector('simple', body)) stored"
            ),
            "create index on letters using gin (words)",
        ),
        "slow(id)",
    ),
    ("mariadb", (_LETTERS.format(", fulltext (title, body)"),), "sleep(0.005) = 0"),
]
"""Tables with an index of words, each with a condition that is slow for a row."""


async def _write_letters(owner: Owner, key: str) -> None:
    rows = {1980: ("", "green tea"), 1981: ("", "Evergreen tea"), 1982: ("", "Green teapot")}
    rows |= {1983: ("tea", "green"), 1984: ("", "TEA, green!"), 1985: ("", "green tea")}
    every = [(n, *rows.get(n, ("plain", "-"))) for n in range(2000)]
    for start in range(0, 2000, 500):
        values = ", ".join(
            [f"({n}, '{title}', '{body}')" for n, title, body in every[start:][:500]]
        )
        await owner.run(f"insert into letters ({key}, title, body) values {values}")


@pytest.mark.parametrize("world", range(len(_WORD_INDEXES)))
async def test_a_full_text_index_finds_words_in_rows_that_there_is_no_time_for(
    owner: Owner, world: int
) -> None:
    engine, definitions, where = _WORD_INDEXES[world]
    if owner.engine != engine or owner.is_generic:
        pytest.skip(f"a table of another engine, or {_NO_INDEX}")
    await owner.run(*definitions)
    key = "rowid" if where == _SLOW_IN_SQLITE else "id"
    await _write_letters(owner, key)
    if key == "id" and engine == "sqlite":
        slow = f"slow text as (case when {_TWO_MILLION} = '' then 'x' end)"
        await owner.run(
            "insert into words (words) values ('rebuild')",
            f"update letters set pad = '{'a' * 200}' where id between 1500 and 1979",
            f"alter table letters add column {slow}",
        )

    async def found(text: str, **options: Any) -> tuple[list[int], str]:
        condition = where and f"{key} <> 1985 and ({key} < 1500 or {key} >= 1980 or {where})"
        letters = TableOptions(where=condition, **options.pop("letters", {}))
        tables = {**options.pop("tables", {}), "letters": letters}
        async with searched(owner, tables=tables) as it:
            page = await it.page(text, within=0.0, **options)
            said = it.unsearched(page).get("letters", "").removeprefix("its rest ")
            is_whole = "." not in (page.next or "") or len(page.hits) == options.get("limit")
            numbers = [int(it.short(hit).partition("/")[2]) for hit in page.hits]
            return numbers, said if is_whole else ""

    async def by_index(text: str, **options: Any) -> list[int]:
        for _ in range(20):  # a busy machine may leave no time for the index
            numbers, said = await found(text, **options)
            if re.fullmatch(r"only for whole words in its full-text index of \w+, \w+", said):
                return numbers
        raise AssertionError("the index was not used")

    last = [1985] if where is None else []
    both = ("tea", "green")
    assert await by_index("", words=both) == [1980, 1982, 1984, *last]
    assert await by_index("green tea") == [1980, 1982, *last]
    assert await by_index("", words=both, limit=2) == [1980, 1982]
    assert await by_index("", words=both, together="document") == [1983]
    assert await by_index("'tea' & \\ \" ! ( :* %s @ ~ + - < | green \\'") == []
    # An index of words is not used where it knows of what is hidden.
    withheld = ColumnOptions(hide=("title",)), ColumnOptions(mask={"title": "hash"})
    for narrowed in (*({"columns": each} for each in withheld), {"search": ("body",)}):
        numbers, said = await found("green", letters=narrowed)
        assert not numbers or 1981 in numbers
        assert "full-text" not in said
    if where is None:
        assert await found("green", tables={"words": False}) == ([], "")
        await owner.run("delete from words_data where id > 10")
        assert await found("green") == ([], "")  # its damage ends no search


@settings(max_examples=30)
@given(
    rows=st.lists(_NAMES, max_size=12),
    sought=_NAMES.filter(bool),
    limit=st.integers(1, 4),
)
def test_all_pages_together_contain_exactly_the_matching_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str], sought: str, limit: int
) -> None:
    path = write(
        tmp_path_factory.mktemp("db") / "it.db",
        "create table t (id integer primary key, name text);",
    )
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany("insert into t values (?, ?)", enumerate(rows))
    connection.close()

    async def found() -> list[str]:
        async with (
            owner_of(f"sqlite:///{path}") as owner,
            searched(owner, tables={"t": NAME}) as it,
        ):
            return await it.found(sought, limit=limit)

    expected = [f"t/{n}" for n, row in enumerate(rows) if sought.casefold() in row.casefold()]
    assert asyncio.run(found()) == expected


async def test_every_reason_is_said_of_many_tables_that_are_not_searched_whole(
    tmp_path: Path,
) -> None:
    views = [f"create view v{number:02} as select 'x' as name;" for number in range(45)]
    table = "create table z (id integer primary key, name text, pin text);"
    path = write(tmp_path / "many.db", "".join([*views, table]))
    async with (
        owner_of(f"sqlite:///{path}") as owner,
        searched(owner, tables={"z": NAME}) as it,
    ):
        page = await it.page("nothing")
    assert sum(gap.count for gap in page.unsearched) == 46
    assert {gap.why for gap in page.unsearched} == {"its rows have no key", "column pin"}
