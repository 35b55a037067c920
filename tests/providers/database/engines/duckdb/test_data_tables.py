"""Long CSV files as views: what DuckDB reads by our options is what our reader reads."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from resource_server.conversion.formats import delimited
from resource_server.providers.database.engines.duckdb import data_tables, text_columns

HEAD = "id,name,note\n"
READ = {
    "plain": HEAD + "1,Ann,x\n2,Bo,y\n",
    "CRLF and quotes": (HEAD + '1,"A ""B"", C","two\nlines"\n2,Bo,\n').replace("\n", "\r\n"),
    "shorter rows": HEAD + "1,Ann\n2,Bo,y\n3\n",
    "longer rows": HEAD + "1,Ann,x\n2,Bo,y,EX,EX\n",
    "semicolons": "id;name\n1;a,b\n00123;1.10\n",
    "a title": "Report 2024\n\n" + HEAD + "1,Ann,x\n2,Bo,y\n",
    "no header": "1,Ann\n2,Bo\n",
    "signs": "a,b\nx,|p|\n4,tab\t\n4,x;y\n1,//,EX,EX\n-5,NULL\n",
}
OTHERWISE = {
    "a quote that is never closed": HEAD + '1,"Ann,x\n2,Bo,y\n3,C,z\n',
    "empty lines": HEAD + "1,Ann,x\n\n\n2,Bo,y\n",
    "Latin-1": HEAD + "1,J\xfcrgen,x\n",
}


@pytest.mark.parametrize("name", [*READ, *OTHERWISE])
def test_a_view_has_the_rows_of_our_reader_or_there_is_none(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.csv"
    text = {**READ, **OTHERWISE}[name]
    path.write_bytes(text.encode("latin-1" if name == "Latin-1" else "utf-8"))
    with duckdb.connect() as database, path.open("rb") as stream:
        database.execute(f"ATTACH ':memory:' AS {text_columns.STAGE} (COMPRESS)")
        found = delimited.read_dialect(stream, "text/csv")
        rows = delimited.read_rows(stream, found, [])
        loaded = text_columns.stage_rows(database, "s", found.names, rows)
        view = data_tables.csv_view(database, str(path), stream, found)
        if name in READ:
            assert view is not None
        if view is not None:
            assert view.columns == loaded.columns
            assert view.rows == loaded.rows
            read = database.execute(view.select).fetchall()
            assert read == database.execute(loaded.select).fetchall()
            assert text_columns.typed(database, view) == text_columns.typed(database, loaded)
