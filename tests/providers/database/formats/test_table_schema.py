from __future__ import annotations

import json

from resource_server.providers.database.engines.reflection import (
    Column,
    ForeignKey,
    Index,
    Table,
    TableName,
)
from resource_server.providers.database.formats.table_schema import schema_json, schema_markdown

CUSTOMERS = TableName(None, "customers")
ORDERS = Table(
    TableName(None, "orders"),
    "table",
    (
        Column("id", "INTEGER", "integer", nullable=False),
        Column("customer_id", "INTEGER", "integer"),
        Column("status", "TEXT", "text", default="'new' || '|'", values=("new", "a|b")),
        Column("total", "NUMERIC(10, 2)", "numeric", generated=True, comment="With | tax\nand all"),
    ),
    key=("id",),
    key_kind="primary",
    foreign_keys=(ForeignKey(("customer_id",), CUSTOMERS, ("id",)),),
    indexes=(Index("by_status", ("status", None), unique=True),),
    comment="# One row\nper order",
    ddl="CREATE TABLE orders (\n  id INTEGER PRIMARY KEY\n)",
)
LINKS = {CUSTOMERS: "sqlite://shop/customers"}


def test_the_schema_is_readable_markdown() -> None:
    assert schema_markdown(ORDERS, LINKS, title="Orders") == (
        "# Orders\n"
        "\n"
        "Table `orders`\n"
        "\n"
        "\\# One row  \n"
        "per order\n"
        "\n"
        "- `id` `INTEGER` not null, primary key\n"
        "- `customer_id` `INTEGER` → [`customers`](<sqlite://shop/customers>) (`id`)\n"
        "- `status` `TEXT` default `'new' || '|'`: One of `new`, `a|b`\n"
        "- `total` `NUMERIC(10, 2)` generated: With \\| tax<br>and all\n"
        "\n"
        "In JSON: decimals, and integers beyond ±9007199254740991, are text.\n"
        "\n"
        "Unique index `by_status`: `status`, *expression*\n"
        "\n"
        "DDL: format=json\n"
    )


def test_the_schema_is_exact_json() -> None:
    assert json.loads(schema_json(ORDERS, LINKS, title="Orders")) == {
        "name": "orders",
        "type": "table",
        "title": "Orders",
        "description": "# One row\nper order",
        "columns": [
            {
                "name": "id",
                "type": "INTEGER",
                "kind": "integer",
                "json": ["integer", "string"],
                "nullable": False,
            },
            {
                "name": "customer_id",
                "type": "INTEGER",
                "kind": "integer",
                "json": ["integer", "string"],
                "nullable": True,
            },
            {
                "name": "status",
                "type": "TEXT",
                "kind": "text",
                "nullable": True,
                "default": "'new' || '|'",
                "values": ["new", "a|b"],
            },
            {
                "name": "total",
                "type": "NUMERIC(10, 2)",
                "kind": "numeric",
                "json": ["number", "string"],
                "nullable": True,
                "generated": True,
                "comment": "With | tax\nand all",
            },
        ],
        "key": {"kind": "primary", "columns": ["id"]},
        "foreignKeys": [
            {
                "columns": ["customer_id"],
                "table": {"name": "customers"},
                "referred": ["id"],
                "uri": "sqlite://shop/customers",
            }
        ],
        "indexes": [{"name": "by_status", "columns": ["status", None], "unique": True}],
        "ddl": ORDERS.ddl,
    }


def test_a_minimal_view_has_no_empty_sections() -> None:
    view = Table(TableName("public", "v"), "materialized view", (Column("a", "", "any"),))
    assert json.loads(schema_json(view)) == {
        "name": "v",
        "schema": "public",
        "type": "materialized view",
        "columns": [{"name": "a", "type": "", "kind": "any", "nullable": True}],
        "key": {"kind": "none", "columns": []},
    }
    text = schema_markdown(view)
    assert text == (
        "# public.v\n\nMaterialized view\n\n- `a`\n\nNo key: rows have neither order nor address\n"
    )


def test_the_description_of_the_manifest_overrides_the_comment() -> None:
    assert "Ours" in schema_markdown(ORDERS, description="Ours")
    assert "per order" not in schema_markdown(ORDERS, description="Ours")
    assert json.loads(schema_json(ORDERS, description="Ours"))["description"] == "Ours"


def test_a_foreign_key_without_an_address_is_not_a_link() -> None:
    assert "→ `customers` (`id`)" in schema_markdown(ORDERS)
    assert "uri" not in json.loads(schema_json(ORDERS))["foreignKeys"][0]


def test_a_key_of_several_columns_shows_their_order() -> None:
    table = Table(
        TableName(None, "t"),
        "table",
        (Column("a", "TEXT", "text"), Column("b", "TEXT", "text")),
        key=("b", "a"),
        key_kind="primary",
    )
    text = schema_markdown(table)
    assert text.count("key") == 1
    assert text.endswith("\n\nPrimary key: `b`, `a`\n")


def test_each_fact_stands_once() -> None:
    table = Table(
        TableName(None, "t"),
        "table",
        (
            Column("a", "TEXT", "text", nullable=False),
            Column("b", "TEXT", "text"),
            Column("c", "TEXT", "text"),
        ),
        key=("a",),
        key_kind="primary",
        foreign_keys=(
            ForeignKey(("b",), CUSTOMERS, ("name",)),
            ForeignKey(("c",), CUSTOMERS, ("name",)),
            ForeignKey(("b", "c"), CUSTOMERS, ("name", "mail")),
        ),
        indexes=(
            Index("sqlite_autoindex_t_1", ("a",), unique=True),
            Index("sqlite_autoindex_t_2", ("b",), unique=True),
            Index("sqlite_autoindex_t_3", ("b", "c"), unique=True),
            Index("t_pkey", ("a",), unique=True),
            Index("some_a", ("a",), unique=True, partial=True),
            Index("c_by_hand", ("c",)),
        ),
    )
    lines = schema_markdown(table, LINKS).split("\n\n", 2)[2].strip("\n").split("\n")
    assert lines == [
        "- `a` `TEXT` not null, primary key",
        "- `b` `TEXT`, unique → [`customers`](<sqlite://shop/customers>) (`name`)",
        "- `c` `TEXT` → `customers` (`name`)",
        "",
        "Foreign key: `b`, `c` → `customers` (`name`, `mail`)",
        "Unique index `b`, `c`",
        "Unique index `some_a`: `a`",
        "Index `c_by_hand`: `c`",
    ]
    indexes = json.loads(schema_json(table))["indexes"]
    assert [index.get("name") for index in indexes] == [None, None, "some_a", "c_by_hand"]


def test_a_table_without_columns_is_described() -> None:
    text = schema_markdown(Table(TableName(None, "t"), "table", ()))
    assert text.startswith("# t\n\nTable\n\nNo key")


def test_a_rowid_is_a_key_beside_the_columns() -> None:
    column = Column("a", "TEXT", "text")
    table = Table(TableName(None, "t"), "table", (column,), key=("rowid",), key_kind="rowid")
    text = schema_markdown(table)
    assert text.endswith("\nRow number, which the database may change: `rowid`\n")


def test_a_set_holds_any_of_its_members() -> None:
    columns = (
        Column("size", "enum('S','L')", "text", values=("S", "L")),
        Column("extras", "SET('x','y')", "text", values=("x", "y")),
    )
    shown = schema_markdown(Table(TableName(None, "t"), "table", columns))
    assert "One of `S`, `L`" in shown
    assert "Any of `x`, `y`" in shown


def test_text_that_is_not_unicode_does_not_break_the_document() -> None:
    bad = "b\udcff"
    table = Table(
        TableName(bad, bad),
        "table",
        (Column(bad, bad, "any", default=bad, comment=bad, values=(bad,)),),
        key=(bad,),
        key_kind="declared",
        foreign_keys=(ForeignKey((bad,), TableName(bad, bad), (bad,)),),
        indexes=(Index(bad, (bad,)),),
        comment=bad,
        ddl=bad,
    )
    schema_markdown(table, title=bad).encode()
    assert json.loads(schema_json(table))["columns"][0]["name"] == "b\ufffd"


def test_a_column_that_rows_cannot_be_ordered_or_filtered_by_says_so() -> None:
    columns = json.loads(schema_json(ORDERS, unsortable=("total",), masked=("total",)))["columns"]
    for fact in ("sortable", "filterable"):
        assert [each.get(fact) for each in columns] == [None, None, None, False]
