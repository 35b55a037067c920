"""Files with numbered rows, for DuckDB to read."""

from __future__ import annotations

from pathlib import Path

import duckdb


def write(path: Path, rows: int = 1000) -> Path:
    """Write a database with a table of so many rows."""
    with duckdb.connect(path) as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT i AS id, 'name ' || i AS name FROM range({rows}) r(i)"
        )
    return path


def write_parquet(path: Path, rows: int = 1000) -> Path:
    """Write a data file with so many rows."""
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT i AS id, 'name ' || i AS name FROM range({rows}) r(i)) TO '{path}'"
        )
    return path
