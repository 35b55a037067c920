"""What is printed where there is nothing to create."""

from __future__ import annotations

import pytest

from resource_server.manifest.databases.owner_sql import ExposedSchema
from resource_server.manifest.databases.policy_sql import policy_sql
from resource_server.providers.database.options import ReadLimits


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_file_has_no_login_to_print(engine: str) -> None:
    found = policy_sql(ExposedSchema("a\ndrop table t;", engine, "x", (), ReadLimits()))
    assert all(line.startswith("--") for line in found.splitlines())
    assert "sql: true" in found
