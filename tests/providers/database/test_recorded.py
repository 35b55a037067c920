from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.providers.database.engines.contract import EngineName
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.recorded import recorded_address, recorded_statement
from tests.cases import for_each

pytestmark = pytest.mark.guarantee("record-has-no-secret")

_KNOWN = (TableName(None, "people"), TableName("hr", "people"), TableName("hr", ""), "named")
_ENGINES: tuple[EngineName, ...] = ("sqlite", "postgresql", "mysql", "mariadb", "duckdb")
LITERAL = "hunter2"


@for_each(
    "sql, recorded",
    [
        ("select a from b", "select a from b"),
        ("select a from b where c = 'hunter2'", "select a from b where c = ?"),
        ("select a from b where c in ('x', 'y', 3.5)", "select a from b where c in (?, ?, ?.?)"),
        ("select 1 -- hunter2\n + 2", "select ? + ?"),
        ("select /* hunter2 */ a", "select a"),
        ("select :name", "select :name"),
        ('select "hunter2" from b', "select ? from b"),
        ("select 'it''s hunter2' from b", "select ? from b"),
        ("select 'hunter2", "..."),
        ("select 1; drop table b", "..."),
        ("", "..."),
    ],
)
def test_sql_is_recorded_without_values(sql: str, recorded: str) -> None:
    assert recorded_statement(sql, "sqlite") == recorded


@for_each("engine", _ENGINES)
def test_no_engine_has_a_string_that_is_recorded(engine: EngineName) -> None:
    texts = [
        "'hunter2'",
        "'a''hunter2'",
        '"hunter2"',
        "E'\\' hunter2'" if engine in ("postgresql", "duckdb") else "'\\hunter2'",
        "$$ hunter2 $$" if engine == "postgresql" else "'hunter2'",
        "'a\\' hunter2'" if engine in ("mysql", "mariadb") else "'hunter2'",
        "`hunter2`" if engine in ("mysql", "mariadb", "sqlite") else "'hunter2'",
        "[hunter2]" if engine == "sqlite" else "'hunter2'",
        "x'hunter2'",
        "N'hunter2'",
        "-- hunter2",
        "/* hunter2 */ 1",
    ]
    for text in texts:
        recorded = recorded_statement(f"select a from b where c = {text}", engine)
        assert LITERAL not in recorded, (text, recorded)


@for_each("engine", _ENGINES)
def test_no_engine_has_a_number_that_is_recorded(engine: EngineName) -> None:
    for number in ("4711", "0x4711", "0X4711", "0b4711", "0o4711", "9_4711", "1e4711", "1.5e+4711"):
        recorded = recorded_statement(f"select a from b where c = {number} and d = 1", engine)
        assert "4711" not in recorded, (number, recorded)
        assert recorded.endswith(" and d = ?"), (number, recorded)


@given(st.text(alphabet="'\"`[]$\\-/*ab1 :;\n", max_size=40), st.sampled_from(_ENGINES))
def test_no_statement_makes_it_fail(sql: str, engine: EngineName) -> None:
    assert isinstance(recorded_statement(sql, engine), str)


@for_each(
    "path, served, expected",
    [
        ((), False, ()),
        (("people",), False, ("people",)),
        (("hunter2",), False, ("...",)),
        (("people", "hunter2"), False, ("people", "...")),
        (("people", "hunter2"), True, ("people", "hunter2")),
        (("people", "a", "hunter2"), False, ("people", "...")),
        (("people", "~rows"), False, ("people", "~rows")),
        (("people", "hunter2", "~cell", "hunter2"), False, ("people", "...", "~cell", "...")),
        (("people", "~hunter2"), False, ("...",)),
        (("~query",), False, ("~query",)),
        (("~query", "named"), False, ("~query", "named")),
        (("~query", "hunter2"), False, ("~query", "...")),
        (("~query", "named", "hunter2"), False, ("...",)),
    ],
)
def test_addresses_without_schemas(
    path: tuple[str, ...], served: bool, expected: tuple[str, ...]
) -> None:
    found = recorded_address(
        path, {"where.ssn": LITERAL}, served=served, has_schemas=False, is_known=_KNOWN.__contains__
    )
    assert found == (expected, {"where.ssn": LITERAL if served else "..."})


@for_each(
    "path, expected",
    [
        (("hr",), ("hr",)),
        (("people",), ("...",)),
        (("people", "hunter2"), ("...",)),
        (("hr", "hunter2"), ("...",)),
        (("hr", "people", "hunter2"), ("hr", "people", "...")),
    ],
)
def test_addresses_with_schemas(path: tuple[str, ...], expected: tuple[str, ...]) -> None:
    found, _ = recorded_address(
        path, {}, served=False, has_schemas=True, is_known=_KNOWN.__contains__
    )
    assert found == expected


def test_values_of_declared_queries_are_left_out_even_if_they_were_served() -> None:
    path, query = recorded_address(
        ("~query", "named"),
        {"ssn": LITERAL},
        served=True,
        has_schemas=False,
        is_known=_KNOWN.__contains__,
    )
    assert (path, query) == (("~query", "named"), {"ssn": "..."})
