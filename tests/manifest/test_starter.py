from __future__ import annotations

import pathlib
import re
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from resource_server import plugins
from resource_server.manifest import starter
from resource_server.manifest.load import load
from resource_server.manifest.starter import (
    MAX_TABLES,
    RowCount,
    SurveyedDatabase,
    SurveyedTable,
    database_manifest,
)
from resource_server.providers.database.engines.reflection import Column, KeyKind, Table, TableName
from resource_server.providers.database.engines.sqlite.key_types import StoredValues
from resource_server.providers.database.options import ColumnOptions, TableOptions
from tests.cases import for_each


def table(
    name: str,
    *columns: str,
    key: tuple[str, ...] = ("id",),
    key_kind: KeyKind = "primary",
    comment: str | None = None,
) -> Table:
    return Table(
        TableName(None, name),
        "view" if key_kind == "none" else "table",
        tuple(
            Column(column, "TEXT", "text", key_type=StoredValues("text"))
            for column in ("id", *columns)
        ),
        key=key,
        key_kind=key_kind,
        comment=comment,
    )


def database(
    *tables: SurveyedTable, url: str = "sqlite:///shop.db", title: str = "shop"
) -> SurveyedDatabase:
    return SurveyedDatabase("shop", title, url, "URIs are sqlite://shop/...", tables)


SHOP = (
    SurveyedTable(
        "customers",
        table("customers", "email", "Password", comment="One per 5 ${customer}.\nYes."),
        RowCount(1234),
    ),
    SurveyedTable("order lines", table("order lines", key=("order", "line no")), RowCount(1)),
    SurveyedTable(
        "off", table("off", key_kind="rowid", key=("rowid",)), RowCount(5_000_000, about=True)
    ),
    SurveyedTable("sales", table("sales", key=(), key_kind="none")),
    SurveyedTable("file", table("file", key_kind="number", key=("~row",)), RowCount(3)),
    SurveyedTable("broken", None),
    SurveyedTable("odd[*]", table("odd[*]")),
)


def test_each_table_has_its_facts_its_comment_and_suggested_options() -> None:
    lines = database_manifest(database(*SHOP)).splitlines()
    first = lines.index("    tables:")
    last = next(n for n, line in enumerate(lines) if line.startswith("    # queries:"))
    assert lines[first + 1 : last] == [
        "      customers:  # 1,234 rows, key id",
        '        description: "One per 5 $${customer}.\\nYes."',
        "        columns:",
        "          hide: [Password]  # by their names; remove those that hold no secret",
        "          # mask: {email: hash}",
        '      "order lines":  # 1 row, key order, "line no"',
        '      "off":  # about 5,000,000 rows, no primary key; rowid is not stable',
        "      sales:  # view, no key",
        "        # key: [id]  # columns that identify a row; rows then have URIs",
        "      file:  # 3 rows, rows are addressed by their number",
        "      broken:  # cannot be read: it refers to a missing table",
        '      "odd[[][*]]":  # key id',
    ]


@for_each(
    ("columns", "key"),
    [
        (("name", "id"), "[id]"),
        (("number", "customer_id"), "[customer_id]"),
        (("total", "email"), "[total]"),
        (("email", "token"), None),
    ],
)
def test_a_key_is_proposed_of_a_column_that_it_can_be(
    columns: tuple[str, ...], key: str | None
) -> None:
    view = table("v", *columns, key=(), key_kind="none")
    view = msgspec.structs.replace(view, columns=view.columns[1:])
    text = database_manifest(database(SurveyedTable("v", view)))
    proposed = re.search(r"# key: (\S+)", text)
    assert (proposed and proposed[1]) == key


def test_a_key_that_may_be_secret_hides_the_table(tmp_path: pathlib.Path) -> None:
    sessions = table("sessions", "token", "email", key=("id", "token"))
    text = database_manifest(database(SurveyedTable("sessions", sessions)))
    assert "        expose: false  # URIs of rows would contain token\n" in text
    assert "columns:" not in text
    file = tmp_path / "m.yaml"
    file.write_text(text, "utf-8")
    assert load(file).mounts[0].options["tables"] == {"sessions": {"expose": False}}
    people = table("people", "email", key=("email",))
    text = database_manifest(database(SurveyedTable("people", people)))
    assert "        # expose: false  # URIs of rows would contain email\n" in text


def test_a_hidden_column_may_have_the_name_of_a_variable(tmp_path: pathlib.Path) -> None:
    odd = table("odd", "${HOME} password", "a: b # password", "x\n- y_password")
    file = tmp_path / "m.yaml"
    file.write_text(database_manifest(database(SurveyedTable("odd", odd))), "utf-8")
    manifest = load(file)
    found: Any = plugins.load_provider(manifest.mounts[0], manifest)
    assert found.tables["odd"].columns.hide == odd.column_names[1:]


def test_no_columns_of_views_are_proposed_as_that_would_be_consent() -> None:
    view = table("logins", "password", "email", key=(), key_kind="none")
    text = database_manifest(database(SurveyedTable("logins", view)))
    assert "columns:" not in text


@pytest.mark.parametrize("name", ["orders", '"Order"', '"a: b # ${HOME}"', "`x`.`y`"])
def test_the_proposed_query_names_a_table_as_sql_does(tmp_path: pathlib.Path, name: str) -> None:
    text = database_manifest(database(*SHOP)._replace(example=name))
    start = text.index("    # queries:")
    file = tmp_path / "m.yaml"
    file.write_text(text[:start] + re.sub("(?m)^    # ", "    ", text[start:]), "utf-8")
    manifest = load(file)
    found: Any = plugins.load_provider(manifest.mounts[0], manifest)
    assert found.queries["some_rows"].sql.split(" from ")[1] == f"{name} limit :count"


def test_a_written_manifest_loads_and_hides_secrets_alone(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mcp-resources.yaml"
    found_there = database(*SHOP, SurveyedTable("", table("")), title="${shop} 🍵 \x7f")
    file.write_text(database_manifest(found_there), encoding="utf-8")
    manifest = load(file)
    (spec,) = manifest.mounts
    assert (spec.base, spec.title) == ("sqlite://shop/", "${shop} 🍵 \x7f")
    found: Any = plugins.load_provider(spec, manifest)
    assert found.url == f"sqlite:///{tmp_path}/shop.db"
    assert found.tables.pop("customers") == TableOptions(
        description="One per 5 ${customer}.\nYes.", columns=ColumnOptions(hide=("Password",))
    )
    assert all(options == TableOptions() for options in found.tables.values())


def test_options_in_comments_load_once_uncommented(tmp_path: pathlib.Path) -> None:
    lines = database_manifest(database(*SHOP)).splitlines()
    start = lines.index("    tables:")
    lines[start:] = [
        line.replace("# ", "", 1) if line.strip()[0] == "#" else line for line in lines[start:]
    ]
    file = tmp_path / "m.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    manifest = load(file)
    found: Any = plugins.load_provider(manifest.mounts[0], manifest)
    assert found.tables["customers"].columns.mask == {"email": "hash"}
    assert found.tables["sales"].key == ("id",)
    assert found.queries["some_rows"].parameters["count"].maximum == 100


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5, unique=True), st.text())
def test_any_name_and_comment_is_read_back(names: list[str], comment: str) -> None:
    text = database_manifest(
        database(
            *(SurveyedTable(name, table(name, name, comment=comment or None)) for name in names)
        )
    )
    (shop,) = yaml.safe_load(text)["databases"].values()
    assert len(shop.get("tables", {})) == len(names)


def test_a_name_that_is_not_unicode_is_left_out() -> None:
    text = database_manifest(
        database(
            SurveyedTable("a\udc80", table("a")), SurveyedTable("b", table("b", "c\udc80", "email"))
        )
    )
    assert list(yaml.safe_load(text)["databases"]["shop"]["tables"]) == ["b"]
    assert "mask: {email: hash}" in text


def test_only_the_first_tables_up_to_the_limit_are_named() -> None:
    text = database_manifest(
        database(*(SurveyedTable(f"t{n}", table(f"t{n}")) for n in range(MAX_TABLES + 7)))
    )
    assert len(yaml.safe_load(text)["databases"]["shop"]["tables"]) == MAX_TABLES
    assert "# and 7 others, served without options" in text


@for_each("url", ["sqlite:///a%20b.db", "${DATABASE_URL}", "mysql://h/d?x=#1"])
def test_a_url_is_kept_unchanged(url: str) -> None:
    assert yaml.safe_load(database_manifest(database(url=url)))["databases"]["shop"]["url"] == url


def test_schemas_are_named_if_there_are_any() -> None:
    found = database(SurveyedTable("public.orders", table("orders")))._replace(
        schemas=["public", "my one"]
    )
    shop = yaml.safe_load(database_manifest(found))["databases"]["shop"]
    assert (shop["schemas"], list(shop["tables"])) == (["public", "my one"], ["public.orders"])


@pytest.mark.parametrize(
    "folder",
    [
        "project",
        "my project",
        '"quo\'ted"',
        "😀: {x}",
        "a\nb\x7f\u2028",
        "2024",
        "null",
        "-",
        "${HOME}",
        "a\\b",
    ],
)
def test_a_manifest_written_by_init_loads_without_diagnostics(
    tmp_path: pathlib.Path, folder: str
) -> None:
    path = tmp_path / folder
    path.mkdir()
    (path / "mcp-resources.yaml").write_text(starter.folder_manifest(path), encoding="utf-8")
    manifest = load(path / "mcp-resources.yaml")
    (spec,) = manifest.mounts
    assert spec.options == {"path": "."}
    assert spec.title == "".join(c if c.isprintable() else "\ufffd" for c in folder)


def test_options_commented_out_by_init_load_once_uncommented(tmp_path: pathlib.Path) -> None:
    text = starter.folder_manifest(tmp_path)
    start = text.index("    # exclude")
    options = re.sub("^    # ", "    ", text[start:], flags=re.MULTILINE)
    (tmp_path / "mcp-resources.yaml").write_text(text[:start] + options)
    (spec,) = load(tmp_path / "mcp-resources.yaml").mounts
    assert list(spec.options) == [
        "path",
        "exclude",
        "gitignore",
        "hidden",
        "max_size",
        "directories",
    ]


def test_the_first_line_names_the_schema_for_editors(tmp_path: pathlib.Path) -> None:
    first, second, *_ = starter.folder_manifest(tmp_path).splitlines()
    assert first == "# yaml-language-server: $schema=./mcp-resources.schema.json"
    assert second.endswith("resource-server schema > mcp-resources.schema.json")
