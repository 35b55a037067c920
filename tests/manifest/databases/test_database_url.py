from __future__ import annotations

import os
import pathlib
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import make_url

from resource_server.manifest.databases.database_url import (
    file_url,
    parse_database_url,
    redacted_url,
    resolve_database_url,
)
from tests.cases import for_each

FILES = st.text(
    st.characters(exclude_characters="\0/", exclude_categories=("Cs",)), min_size=1
).filter(lambda name: name not in (".", ".."))
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


@given(FILES)
def test_a_file_path_round_trips_through_its_url(name: str) -> None:
    path = pathlib.Path("/folder") / name
    assert parse_database_url(file_url("sqlite", path).text).database == str(path)


def test_a_file_name_that_is_not_utf_8_is_kept() -> None:
    path = pathlib.Path(os.fsdecode(b"/a/caf\xe9.db"))
    assert parse_database_url(file_url("sqlite", path).text).database == str(path)


def test_a_file_is_relative_to_a_folder_unless_it_is_absolute() -> None:
    folder = pathlib.Path("/conf")
    found = [
        resolve_database_url(parse_database_url(url), folder).text
        for url in ("sqlite3:///shop.db", "sqlite+aiosqlite:///../a b.db", "sqlite:////data/x.db")
    ]
    assert found == [
        "sqlite:////conf/shop.db",
        "sqlite:////conf/../a%20b.db",
        "sqlite:////data/x.db",
    ]


@given(WORDS, WORDS, WORDS)
def test_a_server_url_is_parsed_as_by_sqlalchemy(user: str, password: str, name: str) -> None:
    url = (
        f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}"
        f"@host:5432/{quote(name, safe='')}"
    )
    found, theirs = parse_database_url(url), make_url(url)
    assert found.text == url
    assert (found.engine, found.host) == (theirs.get_backend_name(), theirs.host)
    assert found.database == (theirs.database or "")
    assert (theirs.password or "") in ("", *found.secrets)
    if password not in repr(parse_database_url("postgresql://host:5432/")):
        assert password not in repr(found)


@for_each(
    ("url", "host", "database"),
    [
        ("postgresql+asyncpg://h/d", "h", "d"),
        ("postgresql://[::1]:5432/d", "::1", "d"),
        ("mysql://[::1]", "::1", ""),
        ("postgresql:///d?host=/run/postgresql", "", "d"),
        ("postgres://u:p@ss#w:rd@h1:5432,h2/d", "h1", "d"),
        ("MariaDB+asyncmy://u@h/", "h", ""),
    ],
)
def test_optional_parts_of_a_url_default_to_empty(url: str, host: str, database: str) -> None:
    found = parse_database_url(url)
    assert (found.host, found.database) == (host, database)


@for_each(
    ("url", "reason"),
    [
        ("shop.db", "not a database URL"),
        ("file:data/*.csv", "not a database URL; data files are files:data/*.csv"),
        ("files:s3://lake", "no object is named; write files:s3://bucket/sales/*.parquet"),
        ("files:s3:///x.csv", "names no bucket; write s3://bucket"),
        ("files:s3://lake/../other/x.csv", "a prefix has no empty, '.' or '..' segment"),
        ("FILES:data/*.csv", "not a database URL; data files are files:data/*.csv"),
        ("orakle://h/d", "unknown engine; write sqlite:///…, postgresql://…, mysql://…, duckdb"),
        ("jdbc:mysql://h:1/d", "a JDBC URL; write mysql://USER:PASSWORD@h:1/d"),
        ("Server=h;Pwd=secret", "an ODBC connection string; write mssql+pyodbc:///"),
        ("sqlite://shop.db", "a file needs three slashes before it"),
        ("sqlite:///", "no file is named"),
        ("sqlite:///:memory:", "no file is named"),
        ("sqlite:///file:x.db", "no file is named"),
        ("sqlite:///x.db?mode=rwc", "a file has no options after"),
        ("sqlite:///a%00b", "not a file name"),
        ("mysql://u:p/ss@h/d", "misplaced special characters"),
        ("mysql://u:p?ss@h/d", "misplaced special characters"),
        ("mysql://u:100%@h/d", "misplaced special characters"),
        ("mysql://u:p@h:port/d", "misplaced special characters"),
        ("mysql://u:p@h/a/b", "misplaced special characters"),
        ("mysql://u:p@/d", "a user without a host; write user@host"),
    ],
)
def test_an_unusable_url_is_refused_with_the_remedy(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        parse_database_url(url)


@for_each(
    ("text", "shown"),
    [
        ("postgresql://me:p@host:5432/db?password=x", "postgresql://…@host:5432/db"),
        ("mysql://me:p@ss@host/db", "mysql://…@host/db"),
        ("postgres://host/db?user=me@there&password=x", "postgres://…@there"),
        ("mysql://me:p?ss@host/db", "mysql://…@host/db"),
        ("sqlite:///shop.db", "sqlite:///shop.db"),
        ("folder", "folder"),
    ],
)
def test_a_redacted_url_has_no_login(text: str, shown: str) -> None:
    assert redacted_url(text) == shown
