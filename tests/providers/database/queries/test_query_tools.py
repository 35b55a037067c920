"""Declared queries as tools, called as the server calls them, on every engine."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import date, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from resource_server import uris
from resource_server.access import Access
from resource_server.catalog.catalog import Catalog
from resource_server.errors import DeadlineExceeded, InvalidParameter, ResourceNotFound
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.server import Server
from resource_server.provider import ByteSize
from resource_server.provider.tools import TextBlock, Tool
from resource_server.providers.database.options import (
    ColumnOptions,
    Query,
    ReadLimits,
    TableOptions,
)
from resource_server.providers.database.provider import Database
from resource_server.providers.database.queries import parameters
from resource_server.providers.database.queries.parameters import Parameter, ParameterType
from resource_server.runtime.eager import settle
from resource_server.runtime.option_types import Duration
from resource_server.runtime.server_key import process_key
from resource_server.testing.tool_rules import SilentToolRequest
from tests.cases import for_each
from tests.listeners import mounted
from tests.providers.database.owners import Owner
from tests.providers.database.served import served

pytestmark = pytest.mark.anyio

PEOPLE = (
    "create table people (id integer primary key, name varchar(40), country varchar(9),"
    " born date, mail varchar(40))",
    "insert into people values (1, 'Ada', 'GB', '1815-12-10', 'ada@x'),"
    " (2, 'Emmy', 'DE', '1882-03-23', 'emmy@x'), (3, 'A|b', 'DE', NULL, NULL)",
)
FROM = Query(
    sql="select id, name from people where country = :country and id >= :least order by id",
    title="People of a country",
    description="Who comes from there",
    parameters={
        "country": Parameter(description="ISO code", max_length=2, examples=("DE",)),
        "least": Parameter(type="integer", default=0, minimum=0, maximum=1000),
    },
)


@asynccontextmanager
async def database(owner: Owner, **options: Any) -> AsyncGenerator[Database]:
    async with Database(url=owner.url, **options) as provider:
        provider.mounted(functools.partial(uris.join, "test://one/"), process_key())
        yield provider


async def called(
    provider: Database, name: str, /, *, budget: int = 25_000, **arguments: object
) -> tuple[Any, str]:
    """Return the data and the text of a result, checked against the output schema."""
    tool = next(tool for tool in provider.tools() if tool.name == name)
    assert tool.output_schema is not None
    request = SilentToolRequest()
    request.budget = budget
    result = await settle(provider.call_tool(name, arguments, request))
    [block] = result.content
    assert isinstance(block, TextBlock)
    structured = msgspec.json.decode(msgspec.json.encode(result.structured))
    assert problems(tool.output_schema, structured) == []
    return structured, block.text


def problems(schema: Mapping[str, Any], value: object) -> list[str]:
    """Return the violations of a JSON Schema, including its formats."""
    validator: Any = Draft202012Validator(schema, format_checker=FormatChecker(("date",)))
    found: Iterable[ValidationError] = validator.iter_errors(value)
    return [error.message for error in found]


def fits(tool: Tool, arguments: Mapping[str, object]) -> bool:
    return not problems(tool.input_schema, arguments)


def of(**named: Parameter) -> Tool:
    """Return the tool of a query with these parameters."""
    sql = f"select {', '.join(f':{name}' for name in named)}"
    [tool] = Database(url="sqlite:///x.db", queries={"q": Query(sql=sql, parameters=named)}).tools()
    return tool


# -- tool definitions


def test_a_query_is_a_tool_with_its_parameters_as_arguments() -> None:
    [tool] = Database(url="sqlite:///x.db", queries={"of_country": FROM}).tools()
    assert (tool.name, tool.title) == ("of_country", "People of a country")
    assert tool.description == "Who comes from there"
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "country": {
                "type": "string",
                "description": "ISO code",
                "maxLength": 2,
                "examples": ["DE"],
            },
            "least": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 0},
        },
        "required": ["country"],
        "additionalProperties": False,
    }


def test_each_type_of_parameter_has_its_form_in_json_schema() -> None:
    properties = of(
        text=Parameter(enum=("a", "b")),
        number=Parameter(type="number", minimum=0.5, maximum=2),
        truth=Parameter(type="boolean", default=False),
        day=Parameter(type="date", optional=True),
        time=Parameter(type="datetime"),
        rank=Parameter(type="integer", enum=(1, 2), default=2),
    ).input_schema["properties"]
    assert properties == {
        "text": {"type": "string", "enum": ["a", "b"]},
        "number": {"type": ["number", "string"], "minimum": 0.5, "maximum": 2},
        "truth": {"type": "boolean", "default": False},
        "day": {"type": "string", "format": "date"},
        "time": {"type": "string", "format": "date-time"},
        "rank": {"type": "integer", "enum": [1, 2], "default": 2},
    }


def test_parameters_with_a_default_or_null_are_not_required() -> None:
    tool = of(a=Parameter(), b=Parameter(default="x"), c=Parameter(optional=True))
    assert tool.input_schema["required"] == ["a"]
    assert "required" not in of(b=Parameter(default="x")).input_schema


def test_a_row_limit_has_a_minimum_of_one() -> None:
    query = Query(sql="select 1", parameters={"limit": Parameter(type="integer", default=5)})
    [tool] = Database(url="sqlite:///x.db", queries={"q": query}).tools()
    assert tool.input_schema["properties"]["limit"]["minimum"] == 1


def test_tools_are_in_manifest_order_without_the_disabled_ones() -> None:
    queries = {
        "z": Query(sql="select 1"),
        "m": Query(sql="select 2", tool=False),
        "a": Query(sql="select 3"),
    }
    tools = Database(url="sqlite:///x.db", queries=queries).tools()
    assert [tool.name for tool in tools] == ["z", "a"]
    assert all(tool.description for tool in tools)


async def test_a_query_disabled_as_a_tool_can_still_be_read(owner: Owner) -> None:
    async with database(owner, queries={"q": Query(sql="select 1", tool=False)}) as provider:
        assert await provider.read(("~query", "q"), {})
        with pytest.raises(ResourceNotFound):
            await settle(provider.call_tool("q", {}, SilentToolRequest()))
        with pytest.raises(ResourceNotFound):
            await settle(provider.call_tool("people", {}, SilentToolRequest()))


def test_a_query_tool_is_hidden_without_the_scopes_of_its_query_and_tables() -> None:
    secret = Access(scopes=("hr",))
    whole = Database(
        url="sqlite:///x.db",
        tables={"salaries": TableOptions(access=secret)},
        queries={
            "open": Query(sql="select 1"),
            "kept": Query(sql="select 2", access=secret),
            "paid": Query(sql="select * from salaries"),
        },
    )
    assert [tool.name for tool in whole.narrowed(frozenset()).tools()] == ["open"]
    every = whole.narrowed(frozenset(("hr",))).tools()
    assert [tool.name for tool in every] == ["open", "kept", "paid"]


# -- results


async def test_a_call_returns_rows_as_data_and_as_a_table(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    async with database(owner, queries={"of_country": FROM}) as provider:
        data, words = await called(provider, "of_country", country="DE")
        assert data == {
            "columns": ["id", "name"],
            "rows": [[2, "Emmy"], [3, "A|b"]],
        }
        assert words.splitlines() == [
            "# People of a country",
            "",
            "| id | name |",
            "| --- | --- |",
            "| 2 | Emmy |",
            "| 3 | A\\|b |",
        ]
        data, words = await called(provider, "of_country", country="XX", least=5)
        assert data == {"columns": ["id", "name"], "rows": []}
        assert words.endswith("| --- | --- |\n")


async def test_a_call_returns_the_rows_that_reading_the_query_returns(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    queries = {"q": Query(sql="select born, mail, name from people order by id")}
    async with database(owner, queries=queries) as provider:
        data, _ = await called(provider, "q")
        [content] = await provider.read(("~query", "q"), {"format": "columns"})
        read = json.loads(content.data)
        assert (data["columns"], data["rows"]) == (read["columns"], read["rows"])
        assert data["rows"][0] == ["1815-12-10", "ada@x", "Ada"]


@pytest.mark.parametrize(
    "limits",
    [
        ReadLimits(rows=3),
        ReadLimits(max_rows=3),
        ReadLimits(bytes=ByteSize(120)),
        ReadLimits(bytes=ByteSize(1)),
    ],
)
async def test_both_forms_have_the_same_rows_at_every_limit(
    owner: Owner, limits: ReadLimits
) -> None:
    await owner.run("create table n (id integer primary key, t varchar(99))")
    await owner.insert("n", *((n, "*" * n) for n in range(1, 30)))
    queries = {"q": Query(sql="select id, t from n order by id")}
    async with database(owner, queries=queries, limits=limits) as provider:
        data, words = await called(provider, "q")
    rows = [line for line in words.splitlines() if line.startswith("| ")][2:]
    assert 1 <= len(rows) == len(data["rows"]) < 29
    assert data["truncated"]
    assert "More rows follow" in words


@pytest.mark.parametrize("budget", [1, 500, 2000])
async def test_both_forms_are_within_the_budget_of_a_call(owner: Owner, budget: int) -> None:
    await owner.run("create table n (id integer primary key, t varchar(99))")
    await owner.insert("n", *((n, "*" * n) for n in range(1, 80)))
    queries = {"q": Query(sql="select id, t from n order by id")}
    async with database(owner, queries=queries) as provider:
        data, words = await called(provider, "q", budget=budget)
    assert data["truncated"]
    assert data["rows"]
    if budget > 1:
        assert budget * 0.4 < max(len(words), len(json.dumps(data))) <= budget


async def test_long_values_are_truncated_in_both_forms(owner: Owner) -> None:
    await owner.run("create table n (id integer primary key, t varchar(99))")
    await owner.insert("n", (1, "x" * 90))
    limits = ReadLimits(cell=ByteSize(20))
    queries = {"q": Query(sql="select t from n")}
    async with database(owner, queries=queries, limits=limits) as provider:
        data, words = await called(provider, "q")
    uri = "test://one/~query/q?~cell=1%2Ft"
    assert data["rows"][0][0] == {
        "$text": "x" * 20,
        "characters": 90,
        "truncated": True,
        "uri": uri,
    }
    assert f"[90 characters](<{uri}>) {'x' * 20}…" in words


async def test_results_exclude_everything_hidden_from_the_query(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    tables = {
        "people": TableOptions(
            columns=ColumnOptions(hide=("born",), mask={"mail": "hash"}), where="country <> 'GB'"
        )
    }
    queries = {
        "star": Query(sql="select * from people order by id"),
        "mail": Query(sql="select mail from people"),
    }
    async with database(owner, tables=tables, queries=queries) as provider:
        data, words = await called(provider, "star")
        masked = ["mail"] if owner.engine == "sqlite" else []
        assert data["columns"] == ["id", "name", "country", *masked]
        assert [row[0] for row in data["rows"]] == [2, 3]
        assert "@" not in words
        if masked:
            return
        with pytest.raises(InvalidParameter, match="refuses this query") as refused:
            await settle(provider.call_tool("mail", {}, SilentToolRequest()))
        assert "people" not in str(refused.value)


async def test_a_query_that_times_out_is_stopped(owner: Owner) -> None:
    limits = ReadLimits(query_timeout=Duration(0.2))
    async with database(owner, queries={"q": Query(sql=owner.endless)}, limits=limits) as provider:
        with pytest.raises(DeadlineExceeded):
            await settle(provider.call_tool("q", {}, SilentToolRequest()))


# -- arguments


GOOD: list[tuple[ParameterType, object, object]] = [
    ("string", "5", "5"),
    ("string", "", ""),
    ("string", "'; drop table people; --", "'; drop table people; --"),
    ("string", "\u202e%_\\", "\u202e%_\\"),
    ("integer", 5, 5),
    ("integer", 5.0, 5),
    ("integer", -(2**63), -(2**63)),
    ("integer", 2**63 - 1, 2**63 - 1),
    ("number", 5, 5.0),
    ("number", 1e-300, 1e-300),
    ("number", -0.1, -0.1),
    ("boolean", True, True),
    ("date", "2026-01-31", date(2026, 1, 31)),
    ("datetime", "2026-01-31T12:30:00", datetime(2026, 1, 31, 12, 30)),  # noqa: DTZ001
]


@for_each(("type", "value", "expected"), GOOD)
def test_a_json_value_keeps_its_type(type: ParameterType, value: object, expected: object) -> None:
    assert fits(of(p=Parameter(type=type)), {"p": value})
    found = parameters.value_from_json("p", Parameter(type=type), value)
    assert (found, found.__class__) == (expected, expected.__class__)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "country is required"),
        ({"country": "DEU"}, "country must be text of at most 2 characters, not 3 characters"),
        ({"country": "DE", "least": "1"}, "least must be an integer from 0 to 1000, not text"),
        ({"country": "DE", "least": 1001}, "least must be an integer from 0 to 1000"),
        ({"country": "DE", "contry": 1}, "unknown query parameter 'contry'; did you mean"),
        ({"country": 1, "least": None}, "country must be .*; least must be .*, not null"),
    ],
)
async def test_unusable_arguments_are_named(
    owner: Owner, arguments: Mapping[str, Any], told: str
) -> None:
    async with database(owner, queries={"q": FROM}) as provider:
        [tool] = provider.tools()
        assert not fits(tool, arguments)
        with pytest.raises(InvalidParameter, match=told):
            await settle(provider.call_tool("q", arguments, SilentToolRequest()))


@given(
    st.sampled_from(["string", "integer", "number", "boolean", "date", "datetime"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates().map(str),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_every_accepted_value_fits_the_schema(type: ParameterType, value: object) -> None:
    parameter = Parameter(type=type)
    try:
        found = parameters.value_from_json("p", parameter, value)
    except InvalidParameter:
        return
    assert fits(of(p=parameter), {"p": value})
    assert parameters.value_from_text("p", parameter, parameters.parameter_text(found)) == found


async def test_values_are_bound_and_never_interpreted_as_sql(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    query = Query(
        sql="select name from people where name = :name",
        parameters={"name": Parameter()},
    )
    async with database(owner, queries={"q": query}) as provider:
        for name, rows in [
            ("Ada", [["Ada"]]),
            ("' or '1'='1", []),
            ("Ada'; drop table people; --", []),
            ("%", []),
            ("\\' or 1=1 -- ", []),
        ]:
            assert (await called(provider, "q", name=name))[0]["rows"] == rows


async def test_each_type_of_argument_reaches_the_database(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    query = Query(
        sql="select count(*) from people where born = :day or (name = 'A|b' and :yes) or id > :n",
        parameters={
            "day": Parameter(type="date"),
            "yes": Parameter(type="boolean"),
            "n": Parameter(type="number", default=2.5),
        },
    )
    async with database(owner, queries={"q": query}) as provider:
        data, _ = await called(provider, "q", day="1815-12-10", yes=True)
        assert data["rows"] == [[2]]
        data, _ = await called(provider, "q", day="1815-12-10", yes=False, n=100)
        assert data["rows"] == [[1]]


# -- over the protocol


async def test_a_client_lists_and_calls_the_tools_of_a_database(owner: Owner) -> None:
    await owner.run(*PEOPLE)
    mount = mounted(Database(url=owner.url, queries={"of_country": FROM}))
    async with Catalog([mount]) as catalog, LocalClient(Server(catalog)) as client:
        listed = await client.request("tools/list", {})
        told = next(tool for tool in listed["tools"] if tool["name"] == "of_country")
        assert told["annotations"]["readOnlyHint"] is True
        result = await client.request(
            "tools/call", {"name": "of_country", "arguments": {"country": "DE"}}
        )
        assert not result.get("isError")
        structured = result["structuredContent"]
        assert problems(told["outputSchema"], structured) == []
        assert structured["rows"] == [[2, "Emmy"], [3, "A|b"]]
        assert "| 2 | Emmy |" in result["content"][0]["text"]
        refused = await client.request(
            "tools/call", {"name": "of_country", "arguments": {"country": "DE", "least": "x"}}
        )
        assert refused["isError"]
        assert "least" in refused["content"][0]["text"]
        missing = await client.request("tools/call", {"name": "of_country", "arguments": {}})
        assert missing["isError"]
        assert "country" in missing["content"][0]["text"]


async def test_a_large_value_of_a_query_has_an_address_with_all_of_it(owner: Owner) -> None:
    declared = {"mariadb": "longtext"}.get(owner.engine, "text")
    await owner.run(f"create table t (id integer primary key, x {declared})")
    long = "é" * 100_000
    await owner.insert("t", (1, "short"), (2, long))
    sql = "select id, x, x as b from t where id >= :least order by id"
    query = Query(sql=sql, parameters={"least": Parameter(type="integer")}, tool=True)
    async with served(owner, queries={"q": query}) as it:
        base = it.base.removesuffix(owner.prefix)
        (_, row) = await it.query("q?least=1")
        assert row["x"]["uri"] == f"{base}~query/q?least=1&~cell=2%2Fx"
        assert row["x"]["characters"] == len(long)
        for cell, text in ((row["x"]["uri"], long), (row["b"]["uri"], long)):
            (body,) = (await it.catalog.read(cell)).items
            assert body.content is not None
            assert (body.content.data, body.content.mime_type) == (text, "text/plain")
        (body,) = (await it.catalog.read(f"{base}~query/q?least=2&~cell=1/id")).items
        assert body.content is not None
        assert (body.content.data, body.content.mime_type) == ("2", "application/json")
        for wrong in ("3/x", "0/x", "1/y", "x", "1", "", "1/x&format=csv"):
            with pytest.raises(InvalidParameter, match="the number of a row and a column"):
                await it.catalog.read(f"{base}~query/q?least=1&~cell={wrong}")
    async with database(owner, queries={"q": query}) as provider:
        structured, _ = await called(provider, "q", least=2)
        assert structured["rows"][0][1]["uri"] == "test://one/~query/q?least=2&~cell=1%2Fx"
        assert "note" not in structured
