from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import AnyUrl

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.database.addressing.address import (
    Address,
    CellAddress,
    DatabaseAddress,
    DefinitionAddress,
    PageAddress,
    QueriesAddress,
    QueryAddress,
    RowAddress,
    SchemaAddress,
    TableAddress,
    address_path,
    parse_path,
)
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.engines.sqlite.key_types import StoredValues
from tests.cases import for_each

ANY = StoredValues("any")
TEXT = StoredValues("text")

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    (
        *("", ".", "..", "5", "~schema", "~rows", "~query", "~cell", "~t", "~", "a/b", "/", "\0"),
        *("orders", "Orders", "é", "e\u0301", "a b", "?", "#", "~torders", "a~b", "\udcff", "%2F"),
    )
)
values = st.integers(-5, 5) | st.floats(allow_nan=False) | names | st.binary(max_size=8)
segments = values.map(ANY.segment) | names.map(TEXT.segment)
keys = st.lists(segments, min_size=1, max_size=4).map(tuple)


def addresses(schemas: st.SearchStrategy[str | None]) -> st.SearchStrategy[Address]:
    tables = st.builds(TableName, schemas, names)
    return st.one_of(
        st.just(DatabaseAddress()),
        st.just(QueriesAddress()),
        st.builds(QueryAddress, names),
        st.builds(TableAddress, tables),
        st.builds(DefinitionAddress, tables),
        st.builds(PageAddress, tables),
        st.builds(RowAddress, tables, keys),
        st.builds(CellAddress, tables, keys, names),
    )


def check(address: Address, *, has_schemas: bool) -> None:
    path = address_path(address)
    assert parse_path(path, has_schemas=has_schemas) == address
    uri = uris.join("sqlite://shop/", path)
    assert uris.parse(uri).path == path
    assert str(AnyUrl(uri)) == uri


@given(addresses(st.none()))
@example(TableAddress(TableName(None, "~schema")))
@example(TableAddress(TableName(None, "~query")))
@example(RowAddress(TableName(None, "5"), ("5",)))
@example(RowAddress(TableName(None, "~query"), ("~t~7Erows",)))
def test_an_address_round_trips_through_its_path(address: Address) -> None:
    check(address, has_schemas=False)


@given(addresses(names) | names.map(SchemaAddress))
@example(SchemaAddress("~query"))
@example(TableAddress(TableName("~query", "~schema")))
@example(TableAddress(TableName("", "")))
def test_an_address_with_a_schema_round_trips_through_its_path(address: Address) -> None:
    check(address, has_schemas=True)


@given(addresses(st.none()), addresses(st.none()))
def test_different_addresses_have_different_paths(one: Address, other: Address) -> None:
    assert (address_path(one) == address_path(other)) is (one == other)


ORDERS = TableName(None, "orders")
PUBLIC = TableName("public", "orders")


@for_each(
    ("path", "address"),
    [
        ((), DatabaseAddress()),
        (("~query",), QueriesAddress()),
        (("~query", "top"), QueryAddress("top")),
        (("orders",), TableAddress(ORDERS)),
        (("5",), TableAddress(TableName(None, "5"))),
        (("~t~7Equery",), TableAddress(TableName(None, "~query"))),
        (("~ta~2Fb",), TableAddress(TableName(None, "a/b"))),
        (("orders", "~schema"), DefinitionAddress(ORDERS)),
        (("~t~7Eschema", "~schema"), DefinitionAddress(TableName(None, "~schema"))),
        (("orders", "~rows"), PageAddress(ORDERS)),
        (("orders", "5"), RowAddress(ORDERS, ("5",))),
        (("orders", "~i5", "~t"), RowAddress(ORDERS, ("~i5", "~t"))),
        (("orders", "schema"), RowAddress(ORDERS, ("schema",))),
        (("orders", "5", "~cell", "note"), CellAddress(ORDERS, ("5",), "note")),
        (("orders", "a", "b", "~cell", "~ta~2F"), CellAddress(ORDERS, ("a", "b"), "a/")),
    ],
)
def test_a_path_names_an_address(path: Path, address: Address) -> None:
    assert parse_path(path, has_schemas=False) == address
    assert address_path(address) == path


@for_each(
    ("path", "address"),
    [
        (("public",), SchemaAddress("public")),
        (("~query",), QueriesAddress()),
        (("public", "orders"), TableAddress(PUBLIC)),
        (("public", "orders", "~schema"), DefinitionAddress(PUBLIC)),
        (("public", "orders", "5"), RowAddress(PUBLIC, ("5",))),
        (("public", "orders", "5", "~cell", "c"), CellAddress(PUBLIC, ("5",), "c")),
        (("public", "~t~7Equery"), TableAddress(TableName("public", "~query"))),
    ],
)
def test_a_path_with_a_schema_names_an_address(path: Path, address: Address) -> None:
    assert parse_path(path, has_schemas=True) == address
    assert address_path(address) == path


def test_another_spelling_of_a_name_is_canonicalized() -> None:
    address = parse_path(("~torders", "5", "~cell", "~tnote"), has_schemas=False)
    assert address_path(address) == ("orders", "5", "~cell", "note")


REFUSED: tuple[Path, ...] = (
    ("~schema",),
    ("~rows",),
    ("~n",),
    ("orders", "~n"),
    ("~i5",),
    ("~",),
    ("~query", "a", "b"),
    ("~query", "~i5"),
    ("orders", "~schema", "x"),
    ("orders", "~rows", "x"),
    ("orders", "x", "~rows"),
    ("orders", "x", "~schema"),
    ("orders", "~cell"),
    ("orders", "~cell", "c"),
    ("orders", "x", "~cell"),
    ("orders", "x", "~cell", "~schema"),
    ("orders", "x", "~cell", "c", "d"),
    ("orders", "x", "~cell", "~cell", "c"),
    ("orders", "~rows", "~cell", "c"),
    ("orders", "~query"),
    ("orders", "~"),
    ("orders", "~x"),
    ("",),
    ("..",),
    ("a/b",),
    ("a\0",),
    ("orders", ""),
    ("orders", ".."),
    ("orders", "a/b"),
    ("orders", "\0"),
    ("\ud800",),
    ("~t~",),
)


@for_each("path", REFUSED)
def test_a_path_that_names_nothing_is_not_found(path: Path) -> None:
    with pytest.raises(ResourceNotFound):
        parse_path(path, has_schemas=False)
    with pytest.raises(ResourceNotFound):
        parse_path(("public", *path), has_schemas=True)


@given(
    st.lists(st.text(max_size=6) | names | segments | st.sampled_from(["~schema", "~cell"])).map(
        tuple
    ),
    st.booleans(),
)
def test_any_path_is_an_address_or_not_found(path: Path, has_schemas: bool) -> None:
    try:
        address = parse_path(path, has_schemas=has_schemas)
    except ResourceNotFound:
        return
    assert parse_path(address_path(address), has_schemas=has_schemas) == address


def test_a_path_too_long_for_a_uri_cannot_be_addressed() -> None:
    key = (TEXT.segment("é" * 1000),)
    assert address_path(RowAddress(ORDERS, key * 2)) == ("orders", *key * 2)
    with pytest.raises(ValueError, match="too long"):
        address_path(RowAddress(ORDERS, key * 3))
    with pytest.raises(ValueError, match="too long"):
        address_path(TableAddress(TableName(None, "a" * 20_000)))


def test_a_path_of_the_maximum_length_is_a_uri() -> None:
    path = address_path(TableAddress(TableName(None, "/" * 5_119)))
    assert uris.parse(uris.join("sqlite://shop/", path)).path == path
