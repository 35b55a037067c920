"""Rows by the claims of callers: the rows that a plain filter finds, on every engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.access import Caller, acting
from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.providers.database import row_claims
from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.engines.reflection import Column, Table, TableName
from resource_server.providers.database.options import ColumnOptions, Query, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries import sql_tokenizer
from resource_server.testing import check_provider
from tests.cases import for_each
from tests.providers.database.conftest import ENGINES, GENERIC, urls_of
from tests.providers.database.owners import Owner, owner_of
from tests.providers.database.served import FRESH, Served, served, timed_database

pytestmark = pytest.mark.anyio
url = urls_of(*ENGINES, *GENERIC)

DIALECTS: Mapping[str, EngineName] = {
    **{name: name for name in ("sqlite", "postgresql", "mariadb", "mysql", "duckdb")},
    "firebird": "generic",
}
"""The engine whose tokens the SQL of each dialect has."""
TEXTS = (
    "alice",
    "ALICE",
    "alice ",
    " alice",
    "älice",
    "a'lice",
    "a''lice",
    "a\\'lice",
    "back\\slash",
    "a\\",
    "' or 1=1 --",
    "') or (1=1",
    'say "hi"',
    "`tick`",
    "%",
    "_",
    "a%ce",
    ":p_limit",
    '"p0"',
    "$1",
    "?",
    "%s",
    "x'61'",
    "0x616c696365",
    "line\nend",
    "\u2028",
    "😀",
    "ﬁ",
    "fi",
    "ss",
    "ß",
    "5",
    "05",
    "5.0",
    "1e3",
    "1000",
    "0x10",
    "16",
    "%(p_k0)s",
    "%(p_limit)s and __[POSTCOMPILE_p_limit]",
    "[a]{literal}",
    "tab\t",
    "x" * 60,
    "x" * 59,
    "true",
    "null",
    "",
)
UNUSABLE: Mapping[str, Any] = {
    "null": None,
    "an object": {"alice": 1},
    "a huge text": "x" * 1_000_000,
    "a NUL": "alice\0",
    "half a character": "alice\ud800",
    "a list in a list": [["alice"]],
    "a list with null": ["alice", None],
    "a long list": ["alice"] * 1001,
    "not a number": float("nan"),
    "a huge number": 10**40,
}


def caller(**claims: Any) -> Caller:
    return Caller("somebody", frozenset(), claims=claims)


async def ids(it: Served, table: str = "t", **claims: Any) -> list[int]:
    """Return the keys of the rows that a caller with these claims reads."""
    with acting(caller(**claims)):
        return [
            row["id"] for row in (await it.json(f"{table}/~rows?limit=1000&columns=id"))["rows"]
        ]


async def fill(owner: Owner, type: str, values: Sequence[object]) -> None:
    await owner.run(f"create table t (id integer primary key, owner {type})")
    await owner.insert("t", *enumerate(values))


def by(where: str, **options: Any) -> dict[str, Any]:
    return {"tables": {"t": TableOptions(where=where, **options)}, "timing": FRESH}


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_text_is_the_same_text_and_no_other(owner: Owner) -> None:
    await fill(owner, "varchar(60)", TEXTS)
    async with served(owner, **by("owner = :claims.sub")) as it:
        for place, text in enumerate(TEXTS):
            assert await ids(it, sub=text) == [place], text
        for text in ("", "nobody", *(f"{text}'" for text in TEXTS)):
            assert await ids(it, sub=text) == [n for n, each in enumerate(TEXTS) if each == text]


_CASELESS: Mapping[str, str] = {
    "sqlite": "varchar(60) collate nocase",
    "postgresql": "varchar(60) collate caseless",
    "mariadb": "varchar(60) character set latin1 collate latin1_german1_ci",
    "firebird": "varchar(60) character set utf8 collate unicode_ci_ai",
}
"""A column whose collation takes other texts for the same, in a character set of few letters."""


@pytest.mark.guarantee("rows-are-the-callers")
async def test_neither_a_collation_nor_a_character_set_decides(owner: Owner) -> None:
    if owner.engine == "postgresql":
        await owner.run(
            "create collation caseless"
            " (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
    texts = ("älice", "ÄLICE", "alice", "Alice", "alice ", "", " ")
    await fill(owner, _CASELESS.get(owner.engine, "varchar(60)"), texts)
    async with served(owner, **by("owner in :claims.sub")) as it:
        for place, text in enumerate(texts):
            assert await ids(it, sub=text) == [place], text
            assert await ids(it, sub=[text, "漢字", "😀"]) == [place], text
        for text in ("漢字", "ά", "a\u0308lice", "aelice", "  "):
            assert await ids(it, sub=text) == [], text


@pytest.mark.guarantee("rows-are-the-callers")
async def test_padding_is_no_part_of_a_text(owner: Owner) -> None:
    await fill(owner, "char(8)", ("alice", "ALICE", "al", None))
    async with served(owner, **by("owner = :claims.sub")) as it:
        for text, found in (
            ("alice", [0]),
            ("ALICE", [1]),
            ("al", [2]),
            *((odd, []) for odd in ("alice ", "alice   ", " alice", "", "Alice", "alice\t")),
        ):
            assert await ids(it, sub=text) == found, text


@pytest.mark.guarantee("rows-are-the-callers")
async def test_the_rows_of_all_others_are_those_with_another_text(owner: Owner) -> None:
    texts = ("alice", "alice ", "Alice", "älice", "al", "漢字", "x" * 40, "")
    await fill(owner, "varchar(60)", (*texts, None))
    async with served(owner, **by("not owner = :claims.sub")) as it:
        for text in (*texts, "nobody", "ά"):
            others = [place for place, each in enumerate(texts) if each != text]
            assert await ids(it, sub=text) == others, text


@pytest.mark.guarantee("rows-are-the-callers")
async def test_long_texts_are_compared_to_their_end(owner: Owner) -> None:
    large = {"mariadb": "longtext", "firebird": "blob sub_type 1"}
    long = "é" * 4095
    texts = (f"{long}x", f"{long}y", long, "alice", "Alice", None)
    await fill(owner, large.get(owner.engine, "text"), texts)
    async with served(owner, **by("owner in :claims.sub")) as it:
        for place, text in enumerate(texts[:-1]):
            assert await ids(it, sub=text) == [place]
        assert await ids(it, sub=[long, "alice"]) == [2, 3]
        assert await ids(it, sub=f"{long}xx") == []  # longer than a usable claim


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_caller_without_a_usable_claim_sees_no_rows(owner: Owner) -> None:
    await fill(owner, "varchar(60)", ("alice", "bob", ""))
    async with served(owner, **by("owner = :claims.sub or owner <> 'alice'")) as it:
        assert await ids(it, sub="alice") == [0, 1, 2]
        assert await ids(it) == []
        for name, value in UNUSABLE.items():
            assert await ids(it, sub=value) == [], name
        for value in (5, 5.5, True, ["alice"]):  # of another type
            assert await ids(it, sub=value) == []


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_list_of_a_claim_shows_the_rows_of_each_item(owner: Owner) -> None:
    await fill(owner, "integer", (1, 2, 3, None))
    async with served(owner, **by("owner in :claims.org.teams")) as it:
        for teams, found in (
            ([1, 3], [0, 2]),
            (["1", "3"], [0, 2]),
            ([], []),
            (2, [1]),
            ([1, "x"], []),
            ([1, 1.5], []),
            ([None], []),
            ("1, 2", []),
        ):
            assert await ids(it, org={"teams": teams}) == found, teams
        assert await ids(it, org=[1]) == []
        assert await ids(it, sub="org.teams") == []


_NUMBERS: Sequence[Any] = (0, 5, -7, 2**31 - 1, None)


@pytest.mark.guarantee("rows-are-the-callers")
async def test_integers_are_compared_as_integers(owner: Owner) -> None:
    await fill(owner, "bigint", (*_NUMBERS, 2**63 - 1, -(2**63)))
    async with served(owner, **by("owner = :claims.n")) as it:
        for claim, found in (
            (5, [1]),
            ("5", [1]),
            (-7, [2]),
            ("-7", [2]),
            (2**63 - 1, [5]),
            (-(2**63), [6]),
            (0, [0]),
            *(
                (odd, [])
                for odd in ("05", "+5", " 5", "5 ", "5.0", "5e0", "-0", "\u0665", "5abc", "")
            ),
            *((odd, []) for odd in (5.0, True, False, 2**63, "9" * 30, [5], "0 or 1=1")),
        ):
            assert await ids(it, n=claim) == found, repr(claim)


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_column_that_cannot_have_a_character_has_no_row_with_it(owner: Owner) -> None:
    if owner.engine != "mariadb":
        pytest.skip("columns have character sets in MariaDB and MySQL")
    await fill(owner, "varchar(60) character set latin1", ("alice", "josé", "?"))
    async with served(owner, **by("owner = :claims.sub")) as it:
        for text, found in (("alice", [0]), ("josé", [1]), ("jose", []), ("😀", []), ("?", [2])):
            assert await ids(it, sub=text) == found


async def test_a_set_is_not_compared_with_a_claim(owner: Owner) -> None:
    if owner.engine != "mariadb":
        pytest.skip("the type is one of MariaDB and MySQL")
    await fill(owner, "set('alice', 'bob')", ("alice", "alice,bob"))
    async with served(owner, **by("owner = :claims.sub")) as it:
        with pytest.raises(ResourceNotFound):
            await ids(it, sub="alice")


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_year_has_four_digits(owner: Owner) -> None:
    if owner.engine != "mariadb" or owner.is_generic:
        pytest.skip("the type is one of MariaDB and MySQL, and only shown by other drivers")
    await fill(owner, "year", (2005, 2026, None))
    async with served(owner, **by("owner = :claims.n")) as it:
        for claim, found in ((2005, [0]), ("2026", [1]), (5, []), ("5", []), ("26", [])):
            assert await ids(it, n=claim) == found, repr(claim)


@pytest.mark.guarantee("rows-are-the-callers")
async def test_numbers_dates_and_booleans_have_their_type(owner: Owner) -> None:
    await owner.run(
        "create table t (id integer primary key, price decimal(10, 2), yes boolean, made date)",
        "insert into t values (1, 1.50, true, '2026-01-31'), (2, 2, false, '2026-02-01')",
    )
    cases: dict[str, Sequence[tuple[Any, list[int]]]] = {
        "price": [(1.5, [1]), ("1.50", [1]), (2, [2]), ("2.0", [2]), ("1e0", []), (True, [])],
        "yes": [(True, [1]), (False, [2]), (1, []), ("true", []), ("", [])],
        "made": [("2026-01-31", [1]), ("2026-02-01", [2]), ("2026-1-31", []), (20260131, [])],
    }
    for column, claims in cases.items():
        async with served(owner, **by(f"{column} = :claims.x")) as it:
            for claim, found in claims:
                if owner.engine == "firebird" and column == "price":
                    with pytest.raises(ResourceNotFound):  # its literals are not exact
                        await ids(it, x=claim)
                    continue
                assert await ids(it, x=claim) == found, (column, claim)


async def test_numbers_are_compared_in_order_and_texts_are_not(owner: Owner) -> None:
    await fill(owner, "integer", (1, 2, 3, None))
    for where, found in (
        ("owner <= :claims.n", [0, 1]),
        (":claims.n < owner", [2]),
        ("owner >= :claims.n and not owner = 3", [1]),
    ):
        async with served(owner, **by(where)) as it:
            assert await ids(it, n=2) == found, where
    await owner.run("create table w (id integer primary key, owner varchar(9))")
    options = {"w": TableOptions(where="owner <= :claims.n")}
    async with served(owner, tables=options, timing=FRESH) as it:
        with pytest.raises(ResourceNotFound):
            await ids(it, "w", n="x")


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_claim_may_be_compared_in_a_subquery(owner: Owner) -> None:
    await fill(owner, "integer", (1, 2, 3))
    await owner.run(
        "create table members (person varchar(20) primary key, team integer)",
        "insert into members values ('alice', 1), ('bob', 2)",
    )
    where = "owner in (select m.team from members m where m.person = :claims.sub)"
    async with served(owner, **by(where)) as it:
        assert await ids(it, sub="alice") == [0]
        assert await ids(it, sub="ALICE") == []
        assert await ids(it) == []


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_text_in_a_declared_query_is_the_same_text_and_no_other(owner: Owner) -> None:
    exact = "varchar(60)" if owner.engine == "postgresql" else _CASELESS.get(owner.engine)
    texts = ("alice", "ALICE", "alice ", " alice", "a'lice", "%s", ":p1", "5", "05", "1e3", "1000")
    await fill(owner, exact or "varchar(60)", (*texts, "", None))
    queries = {
        "mine": Query(sql="select id from t where owner = :claims.sub order by id"),
        "turned": Query(sql="select id from t where :claims.sub = owner order by id"),
        "told": Query(sql="select count(*) as n from t where :claims.sub = 'x' or 1 = 1"),
    }
    async with served(owner, queries=queries, timing=FRESH) as it:
        for place, text in enumerate((*texts, "", "Alice", "alice  ", "1e03", "x" * 4096)):
            with acting(caller(sub=text)):
                for name in ("mine", "turned"):
                    found = [row["id"] for row in await it.query(name)]
                    assert found == ([place] if place <= len(texts) else []), (name, text)
                assert await it.query("told") == [{"n": len(texts) + 2}]
        for value in (None, {"a": 1}, "x" * 4097, "a\0"):
            with acting(caller(sub=value)):
                assert [await it.query(name) for name in queries] == [[], [], []]


@pytest.mark.guarantee("rows-are-the-callers")
async def test_a_declared_query_has_claims_that_no_client_sets(owner: Owner) -> None:
    if owner.is_generic:
        pytest.skip("queries of other drivers read whole tables only")
    await fill(owner, "varchar(20)", ("alice", "bob", "alice"))
    queries = {
        "mine": Query(sql="select id from t where owner = :claims.sub order by id"),
        "all": Query(sql="select id from t order by id"),
        "told": Query(sql="select count(*) as n from t where :claims.sub = 'x' or 1 = 1"),
    }
    async with served(owner, **by("owner = :claims.sub"), queries=queries) as it:
        for sub, found in (("alice", [0, 2]), ("bob", [1]), ("ALICE", []), (None, [])):
            with acting(caller(sub=sub)):
                assert [row["id"] for row in await it.query("mine")] == found
                assert [row["id"] for row in await it.query("all")] == found
                assert await it.query("told") == ([{"n": len(found)}] if sub else [])
                mount, _, _ = it.catalog.route(it.base)
                (tool, *_) = await mount.provider.tools()
                assert tool.input_schema["properties"] == {}
                with pytest.raises(Exception, match="unknown query parameter"):
                    await it.query("mine?claim_0=alice")
        with pytest.raises(ResourceNotFound):
            await it.query("mine")  # a caller without tokens


async def test_a_query_of_rows_by_claims_is_refused_by_other_drivers(owner: Owner) -> None:
    if not owner.is_generic:
        pytest.skip("the engines of their own read the rows of the caller")
    await fill(owner, "varchar(20)", ("alice", "bob"))
    queries = {"all": Query(sql="select id from t order by id")}
    async with served(owner, **by("owner = :claims.sub"), queries=queries) as it:
        with acting(caller(sub="alice")), pytest.raises(InvalidParameter, match="refuses"):
            await it.query("all")


async def test_a_view_of_rows_by_claims_is_hidden_without_rules_of_its_own(owner: Owner) -> None:
    await fill(owner, "varchar(20)", ("alice", "bob"))
    await owner.run("create view v as select * from t", "create view w as select * from v")
    async with served(owner, **by("owner = :claims.sub")) as it:
        for view in ("v", "w"):
            with pytest.raises(ResourceNotFound):
                await ids(it, view, sub="alice")
    own = {name: TableOptions(where="owner = :claims.sub", key=("id",)) for name in ("t", "v")}
    async with served(owner, tables=own, timing=FRESH) as it:
        assert await ids(it, "v", sub="bob") == [1]


async def test_a_table_by_claims_does_not_exist_without_tokens(owner: Owner) -> None:
    await fill(owner, "varchar(20)", ("alice", "bob"))
    await owner.run("create table other (id integer primary key)")
    async with served(owner, **by("owner = :claims.sub")) as it:
        assert await it.children() == ["other"]
        for path in ("t", "t/1", "t/~rows", "t/~schema"):
            with pytest.raises(ResourceNotFound):
                await it.read(path)
        assert "`server.claims` has no sub" in await it.catalog.explain(f"{it.base}t")
        assert await it.catalog.explain(it.base) == "exposed"
        mount, _, _ = it.catalog.route(it.base)
        ((*_, name), rule), *_ = await mount.provider.hides(limit=9)
        assert (name, rule) == ("t", "tables.t.where")
        with acting(caller(sub="bob")):
            explained = await it.catalog.explain(f"{it.base}t")
            assert explained == "exposed, rows by sub (tables.t.where)"
            explained = await it.catalog.explain(it.base)
            assert explained == "exposed, with rows by claims in t"
            with pytest.raises(ResourceNotFound):
                await it.read("t/0")
            assert json.loads(await it.text("t/1"))["owner"] == "bob"


async def test_callers_share_the_connections_of_the_database(owner: Owner) -> None:
    count = 40 if owner.is_generic else 300
    await fill(owner, "integer", range(count))
    async with served(owner, **by("owner = :claims.n")) as it:
        for n in range(count):
            assert await ids(it, n=n) == [n]
        engines = {id(each) for each in _engines(it)}
        assert len(engines) == 1


def _engines(it: Served) -> Sequence[object]:
    found: list[object] = []
    for n in range(300):
        with acting(caller(n=n)):
            mount, _, _ = it.catalog.route(it.base)
        database: Any = mount.provider
        found.append(database._provider.engine)
    return found


@for_each(
    "where, message",
    {
        "no name": ("owner = :claims", "has :claims without the name of a claim"),
        "no comparison": ("length(:claims.sub) > 1", "is not compared with a column"),
        "an expression": ("lower(owner) = :claims.sub", "is not compared with a column"),
        "more than a claim": ("owner = :claims.sub || 'x'", "is not compared with a column"),
        "a cast": ("owner = :claims.sub::text", "is not compared with a column"),
        "unequal": ("owner <> :claims.sub", "is not compared with a column"),
        "not in": ("owner not in :claims.sub", "is not compared with a column"),
        "like": ("owner like :claims.sub", "is not compared with a column"),
        "two claims": (":claims.sub = :claims.sub", "is not compared with a column"),
        "a parameter": ("owner = :sub", "write the value itself, or a claim of the caller"),
        "any": (":claims.sub = any(owners)", "is not compared with a column"),
    }.values(),
)
def test_a_condition_that_is_not_understood_is_refused(where: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"tables\.t\.where") as refused:
        Database("sqlite:///x.db", tables={"t": TableOptions(where=where)})
    assert message in str(refused.value)


@for_each(
    "where, claims",
    {
        "owner = :claims.sub": {"sub"},
        "t.owner=:claims.org.id": {"org.id"},
        "(owner IN (:claims.teams)) and x > 1": {"teams"},
        "x is null or :claims.a >= n and y = :claims.b": {"a", "b"},
        'owner = :claims."https://example.org/id".x': {'"https://example.org/id".x'},
        "note = ':claims.sub' and owner = :claims.id": {"id"},
    }.items(),
)
def test_the_claims_of_a_condition_are_known(where: str, claims: set[str]) -> None:
    database = Database("sqlite:///x.db", tables={"t": TableOptions(where=where)})
    assert database.claims == claims


def test_callers_sql_on_a_server_is_refused_with_rows_by_claims() -> None:
    with pytest.raises(ValueError, match="show the same rows to every caller"):
        Database(
            "postgresql://a@localhost/b",
            tables={"t": TableOptions(where="owner = :claims.sub")},
            sql=True,
        )


_TABLE = Table(
    TableName(None, "t"),
    type="table",
    columns=(Column("owner", "varchar", "text"), Column("n", "integer", "integer")),
)


@given(text=st.text(max_size=30), dialect=st.sampled_from([*DIALECTS]))
def test_a_rendered_claim_is_one_literal(text: str, dialect: str) -> None:
    engine = DIALECTS[dialect]
    condition = row_claims.row_condition(sql_tokenizer.statement("owner = :claims.sub", engine))
    assert condition is not None
    if "\0" in text or "%(" in text or "_[" in text:
        return  # never a usable claim, or literals that are joined
    plain = condition.rendered({"sub": "x" if text.isascii() else "é"}, _TABLE, (), dialect)
    other = condition.rendered({"sub": text}, _TABLE, (), dialect)
    shape = [(token.kind, token.text) for token in sql_tokenizer.statement(plain, engine)]
    found = [(token.kind, token.text) for token in sql_tokenizer.statement(other, engine)]
    assert _without_literals(shape) == _without_literals(found)


def _without_literals(tokens: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    literals = ("'", '"', "E'")
    # Firebird counts the characters of a text.
    is_literal = [each[1].startswith(literals) or each[1].isdigit() for each in tokens]
    return [
        ("literal", "") if is_it else each for is_it, each in zip(is_literal, tokens, strict=True)
    ]


async def test_a_hidden_column_may_decide(owner: Owner) -> None:
    await fill(owner, "varchar(20)", ("alice", "bob"))
    options = by("owner = :claims.sub", columns=ColumnOptions(hide=("owner",)))
    async with served(owner, **options) as it:
        assert await ids(it, sub="bob") == [1]
        with acting(caller(sub="bob")):
            assert "owner" not in await it.text("t/1")


async def test_a_provider_of_rows_by_claims_keeps_the_contract(tmp_path: Path) -> None:
    async with owner_of(f"sqlite:///{tmp_path}/it.db") as owner:
        await fill(owner, "varchar(20)", ("somebody", "bob"))
        await owner.run("create table other (id integer primary key)")
        queries = {
            "mine": Query(sql="select id from t where owner = 'x'"),
            "by": Query(sql="select :claims.org.id as org"),
            "all": Query(sql="select id from other"),
        }
        tables = {"t": TableOptions(where="owner = :claims.sub")}
        database = timed_database(FRESH, url=owner.url, tables=tables, queries=queries)
        assert database.claims == {"sub", "org.id"}
        assert [tool.name for tool in database.tools()] == ["all"]  # without tokens
        only_sub = database.with_claims({"sub": "bob"})
        assert [tool.name for tool in only_sub.tools()] == ["mine", "all"]
        await check_provider(database)
