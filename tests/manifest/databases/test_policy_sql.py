"""Names of the views of a policy, and what is printed where there is nothing to create."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.manifest.databases.owner_sql import ExposedSchema
from resource_server.manifest.databases.policy_sql import policy_sql, view_names
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.options import ReadLimits

NAMES = st.builds(
    TableName, st.sampled_from(["s", "S", "", None]), st.sampled_from("t T s_t _t".split())
)


@given(st.lists(NAMES, unique=True))
def test_every_table_has_a_view_of_its_own(tables: list[TableName]) -> None:
    found = view_names(tables)
    assert [*found.values()] == tables
    assert len({name.casefold() for name in found}) == len(tables)
    for name, table in found.items():
        assert name.rstrip("_").endswith(table.name.rstrip("_"))


def test_the_first_of_tables_of_one_name_keeps_it() -> None:
    tables = [TableName("a", "t"), TableName("b", "T"), TableName("c", "b_t"), TableName("b", "u")]
    assert [*view_names(tables)] == ["t", "b_T", "c_b_t", "u"]
    assert view_names([]) == {}


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_file_has_no_login_to_print(engine: str) -> None:
    found = policy_sql(ExposedSchema("a\ndrop table t;", engine, "x", (), ReadLimits()))
    assert all(line.startswith("--") for line in found.splitlines())
    assert "sql: true" in found
