from __future__ import annotations

from pathlib import Path

from resource_server.providers.database.engines.generic.dialect_url import (
    database_title,
    foreign_advice,
    has_place,
    is_foreign,
    parse_url,
    resolved_url,
    scheme_of,
    secrets_of,
)
from tests.cases import for_each


@for_each(
    ("url", "advice"),
    [
        ("jdbc:oracle:thin:me/geheim@//h:1521/x", "oracle+oracledb://USER:PASSWORD@h:1521?service_name=x"),
        ("jdbc:oracle:thin:me/ge@heim@h:1521:x", "oracle+oracledb://USER:PASSWORD@h:1521?service_name=x"),
        ("jdbc:mysql://me:geheim@h:3306/x", "mysql://USER:PASSWORD@h:3306/x"),
        ("jdbc:mysql://me:geheim?x@h/x", "mysql://USER:PASSWORD@HOST/DATABASE"),
        ("jdbc:mysql://me:geheim;/x@h/x", "mysql://USER:PASSWORD@HOST/DATABASE"),
        ("jdbc:mysql://h/x?user=me&password=ge@heim", "mysql://USER:PASSWORD@HOST/DATABASE"),
        ("JDBC:SQLServer://h;databaseName=x;password=geheim", "mssql+pymssql://USER:PASSWORD@h/x"),
        ("jdbc:sqlserver://h;password={;database=geheim};x=1", "mssql+pymssql://USER:PASSWORD@HOST/DATABASE"),
        ("jdbc:teradata://h/DATABASE=x,USER=me,PASSWORD=geheim", "teradata://USER:PASSWORD@h/DATABASE"),
        ("jdbc:oracle:thin:me/geheim", "oracle+oracledb://USER:PASSWORD@HOST?service_name=DATABASE"),
        ("jdbc:mysql://(host=h,user=me,password=x@geheim)/x", "mysql://USER:PASSWORD@HOST/DATABASE"),
        ("jdbc:mysql://me:x=geheim@h/x", "mysql://USER:PASSWORD@HOST/DATABASE"),
        ("jdbc:mysql:me:geheim", "mysql://USER:PASSWORD@HOST/DATABASE"),
        ("jdbc:", "the URL of SQLAlchemy"),
    ],
)  # fmt: skip
def test_advice_on_a_jdbc_url_has_no_part_of_its_login(url: str, advice: str) -> None:
    assert is_foreign(url)
    assert foreign_advice(url) == f"a JDBC URL; write {advice}"


def test_a_hostile_jdbc_url_takes_no_time() -> None:
    for part in ("@", ":", "/", "@/", "a:@"):
        assert foreign_advice("jdbc:mysql:" + part * 50_000).startswith("a JDBC URL")


@for_each(
    ("text", "is_place"),
    [
        ("oracle://shop/orders", False),
        ("oracle://me@shop/orders", True),
        ("trino://shop:8080", True),
        ("nosuch://me:pw@shop:1", False),
        ("oracle://shop/a@b:c", False),
        ("Driver={x};Server=h", True),
    ],
)
def test_a_url_of_a_database_differs_from_that_of_a_resource(text: str, is_place: bool) -> None:
    assert has_place(text) is is_place


def test_secrets_of_a_url_are_found_in_every_spelling() -> None:
    url = parse_url("postgresql+psycopg://me:a%20%2Fb@h/x?sslpassword=c%2Bd&sslmode=require")
    assert set(secrets_of(url)) == {"a /b", "a%20%2Fb", "a+%2Fb", "c+d", "c%2Bd"}
    assert secrets_of(parse_url("sqlite:///x.db")) == ()
    assert scheme_of("FDB+Firebird://h") == ("firebird", "firebird")


def test_a_file_beside_the_manifest_is_found_and_titled() -> None:
    assert resolved_url("sqlite+pysqlite:///a/shop.db", Path("/m")).endswith("////m/a/shop.db")
    assert resolved_url("sqlite+pysqlite:////b/shop.db", Path("/m")).endswith("////b/shop.db")
    assert database_title(parse_url("firebird://h//data/shop.v2.FDB")) == "shop.v2"
    assert database_title(parse_url("postgresql+psycopg://h/shop.v2")) == "shop.v2"
    assert database_title(parse_url("postgresql+psycopg://h")) == ""
