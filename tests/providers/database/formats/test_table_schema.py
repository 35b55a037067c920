from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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


def test_the_schema_is_a_document_for_people() -> None:
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
            {"name": "id", "type": "INTEGER", "kind": "integer", "nullable": False},
            {"name": "customer_id", "type": "INTEGER", "kind": "integer", "nullable": True},
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


def test_a_view_without_anything_has_only_what_there_is() -> None:
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


def test_the_description_of_the_manifest_comes_before_the_comment() -> None:
    assert "Ours" in schema_markdown(ORDERS, description="Ours")
    assert "per order" not in schema_markdown(ORDERS, description="Ours")
    assert json.loads(schema_json(ORDERS, description="Ours"))["description"] == "Ours"


def test_a_foreign_key_to_what_has_no_address_is_no_link() -> None:
    assert "→ `customers` (`id`)" in schema_markdown(ORDERS)
    assert "uri" not in json.loads(schema_json(ORDERS))["foreignKeys"][0]


def test_a_key_of_several_columns_says_their_order() -> None:
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


def test_no_columns_at_all_are_an_empty_table() -> None:
    assert schema_markdown(Table(TableName(None, "t"), "table", ())).count("|") == 14


def test_text_that_is_not_unicode_fails_no_document() -> None:
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


def fenced(text: str) -> str:
    """Return the content of the last code block, as CommonMark finds its end."""
    lines = text.split("## DDL\n\n", 1)[1].split("\n")
    fence = lines[0].removesuffix("sql")
    assert set(fence) == {"`"}
    closing = [at for at, line in enumerate(lines[1:], 1) if _closes(line, fence)]
    assert lines[closing[0] + 1 :] == [""]
    return "\n".join(lines[1 : closing[0]])


def _closes(line: str, fence: str) -> bool:
    mark = line.strip(" \t")
    return bool(mark) and set(mark) == {"`"} and len(mark) >= len(fence)


@pytest.mark.parametrize(
    "ddl", ["a\n```\n# x", "````", "x\n`````sql\n```", "CREATE\r\n  ```  \r\nx", "~~~\nx"]
)
def test_no_ddl_breaks_out_of_its_block(ddl: str) -> None:
    assert fenced(schema_markdown(with_ddl(ddl))) == ddl


@given(st.text(st.sampled_from("`~ \n#sqlx"), min_size=1))
def test_any_ddl_stands_in_its_block_as_it_is(ddl: str) -> None:
    assert fenced(schema_markdown(with_ddl(ddl))) == ddl.strip("\r\n")


def with_ddl(ddl: str) -> Table:
    return Table(TableName(None, "t"), "table", (Column("a", "", "any"),), ddl=ddl)


HOSTILE: Any = st.text(st.sampled_from("ab|`\\\n\r#-<[]*_&; "), max_size=12)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
@example(r"a\|b", r"\\|", "a|b", "c\\")
def test_no_name_or_comment_adds_a_line_or_a_cell(
    name: str, type: str, default: str, comment: str
) -> None:
    column = Column(name, type, "any", default=default, comment=comment)
    text = schema_markdown(Table(TableName(None, "t"), "table", (column,)))
    lines = text.split("## Columns\n\n")[1].split("\n\n")[0].split("\n")
    assert len(lines) == 3
    assert "\r" not in lines[2]
    assert _unescaped_bars(lines[2]) == 7


def _unescaped_bars(line: str) -> int:
    """Count as cmark-gfm does: before punctuation a backslash escapes, itself as well."""
    bars, at = 0, 0
    while at < len(line):
        if line[at] == "\\" and line[at + 1 : at + 2] in set("\\|`<[*_&#-;]"):
            at += 2
            continue
        bars += line[at] == "|"
        at += 1
    return bars


@given(HOSTILE)
def test_no_description_is_anything_but_a_paragraph(description: str) -> None:
    text = schema_markdown(with_ddl(""), description=description)
    shown = text.split("Table `t`\n\n")[1].split("## Columns")[0]
    for line in shown.strip("\n").split("\n"):
        assert not re.match(r"\s*(#{1,6}(\s|$)|[-<`*])", line)
    assert "\n\n" not in shown.strip("\n")
