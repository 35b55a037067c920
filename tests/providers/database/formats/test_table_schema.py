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
        "## Columns\n"
        "\n"
        "| column | type | null | default | key | comment |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| `id` | `INTEGER` | no |  | key |  |\n"
        "| `customer_id` | `INTEGER` | yes |  | foreign key |  |\n"
        "| `status` | `TEXT` | yes | `'new' \\|\\| '\\|'` |  | One of `new`, `a\\|b` |\n"
        "| `total` | `NUMERIC(10, 2)` | yes | generated |  | With \\| tax<br>and all |\n"
        "\n"
        "In JSON: decimals, and integers beyond ±9007199254740991, are text.\n"
        "\n"
        "Primary key: `id`\n"
        "\n"
        "## Foreign keys\n"
        "\n"
        "- `customer_id` → [`customers`](<sqlite://shop/customers>) (`id`)\n"
        "\n"
        "## Indexes\n"
        "\n"
        "- `by_status`: `status`, *expression*, unique\n"
        "\n"
        "## DDL\n"
        "\n"
        "```sql\n"
        "CREATE TABLE orders (\n"
        "  id INTEGER PRIMARY KEY\n"
        ")\n"
        "```\n"
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
    assert text.startswith("# public.v\n\nMaterialized view `public.v`\n\n## Columns\n")
    assert "No key" in text
    assert "DDL" not in text
    assert "Foreign" not in text


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
    assert "| `a` | `TEXT` | yes |  | key 2 |  |" in text
    assert "Primary key: `b`, `a`" in text


def test_a_table_without_columns_has_an_empty_column_list() -> None:
    assert schema_markdown(Table(TableName(None, "t"), "table", ())).count("|") == 14


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
