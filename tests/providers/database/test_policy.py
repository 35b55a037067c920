from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from resource_server.providers.database import policy as policies
from resource_server.providers.database.addressing.key_types import Integers
from resource_server.providers.database.engines.reflection import (
    Column,
    ForeignKey,
    Index,
    Key,
    Table,
    TableName,
    TableType,
)
from resource_server.providers.database.masks import MaskKind
from resource_server.providers.database.options import ChangeHint, ColumnOptions, TableOptions
from resource_server.providers.database.policy import (
    Policy,
    Problem,
)
from resource_server.runtime.server_key import ServerKey
from tests.cases import for_each

KEY = ServerKey(b"key")
ORDERS = Table(
    TableName(None, "orders"),
    "table",
    (
        Column("id", "INTEGER", "integer", nullable=False, key_type=Integers()),
        Column("email", "TEXT", "text", default="'nobody@example.org'", values=("a", "b")),
        Column("card_number", "TEXT", "text"),
        Column("total", "NUMERIC", "numeric", default="length(card_number)", key_type=Integers()),
        Column("customer_id", "INTEGER", "integer"),
    ),
    key=("id",),
    key_kind="primary",
    foreign_keys=(ForeignKey(("customer_id",), TableName(None, "customers"), ("id",)),),
    indexes=(
        Index("by_card", ("card_number", "id")),
        Index("by_email", ("email",)),
        Index("by_lower", (None,)),
        Index("by_large_total", ("total",), partial=True),
    ),
    ddl="CREATE TABLE orders (…)",
)


def policy(tables: Mapping[str, TableOptions | bool]) -> Policy:
    return Policy(tables, "sqlite", key=KEY)


def orders(**options: object) -> Policy:
    return policy({"orders": TableOptions(**options)})  # pyright: ignore[reportArgumentType]


def hiding(*names: str, **masks: MaskKind) -> TableOptions:
    return TableOptions(columns=ColumnOptions(hide=names, mask=masks))


def exposed(
    tables: Mapping[str, TableOptions | bool], name: str, schema: str | None = None
) -> bool:
    return policy(tables).of(TableName(schema, name)) is not None


# -- tables


def test_a_table_without_a_matching_entry_is_fully_exposed() -> None:
    assert policy({}).of(ORDERS.name) == TableOptions()
    view = policy({}).view(ORDERS)
    assert view.table == ORDERS
    assert view.mask([(1, "a")], ["id", "email"]) == [(1, "a")]


def test_the_first_matching_entry_wins() -> None:
    tables = {"audit_public": True, "audit_*": False, "a*": TableOptions(title="A")}
    assert exposed(tables, "audit_public")
    assert not exposed(tables, "audit_log")
    found = policy(tables).of(TableName(None, "apples"))
    assert found is not None
    assert found.title == "A"
    assert policy(tables).rule(TableName(None, "audit_log")) == "tables.audit_*"
    assert policy(tables).rule(TableName(None, "b")) is None
    assert not exposed({"a*": False, "ab": True}, "ab")


def test_patterns_are_matched_once_per_table(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[object] = []
    fits = policies.Rule.fits

    def noted(rule: Any, names: Any) -> bool:
        compared.append(names)
        return fits(rule, names)

    # Patched to count the comparisons: a match is cached and looks the same without the cache.
    monkeypatch.setattr(policies.Rule, "fits", noted)
    rules = policy({"audit_*": False, "o*": True})
    for _ in range(5):
        assert rules.of(TableName(None, "audit_log")) is None
        assert rules.of(TableName(None, "orders")) is not None
    assert len(compared) == 3


def test_an_entry_matches_with_and_without_the_schema() -> None:
    tables = {"public.orders": True, "orders": False, "private.*": False}
    assert exposed(tables, "orders", "public")
    assert not exposed(tables, "orders", "sales")
    assert not exposed(tables, "anything", "private")
    assert exposed(tables, "private")


@for_each("pattern", ["audit_log", "audit_*", "Audit_*", "AUDIT_LOG", "[a]udit_???"])
def test_a_table_is_hidden_ignoring_case(pattern: str) -> None:
    assert not exposed({pattern: False}, "Audit_Log")
    assert exposed({pattern: False}, "audits")


def test_an_entry_in_the_exact_case_of_a_table_wins() -> None:
    tables = {"orders": False, "Orders": TableOptions(title="Other")}
    assert exposed(tables, "Orders")
    assert not exposed(tables, "orders")
    assert not exposed(tables, "ORDERS")


def test_a_table_whose_name_has_wildcards_is_matched_by_its_exact_name() -> None:
    assert not exposed({"odd[1]": False}, "odd[1]")
    assert exposed({"odd[x]y": False}, "odd[1]")


# -- columns


def test_a_hidden_column_leaves_no_trace() -> None:
    view = policy({"orders": hiding("card_number")}).view(ORDERS)
    assert view.table.column_names == ("id", "email", "total", "customer_id")
    assert view.table.indexes == (Index("", ("email",)),)
    assert view.table.ddl is None
    assert view.table.key_kind == "primary"
    assert "card" not in repr(view.table)


def test_a_column_is_hidden_ignoring_case() -> None:
    view = policy({"orders": hiding("Card_Number")}).view(ORDERS)
    assert "card" not in repr(view.table)


def test_a_hidden_column_hides_its_foreign_key() -> None:
    view = policy({"orders": hiding("customer_id")}).view(ORDERS)
    assert view.table.foreign_keys == ()


@for_each("customers", [False, hiding("id"), hiding(id="hash"), hiding("ID")])
def test_a_foreign_key_to_a_hidden_table_or_column_is_hidden(
    customers: TableOptions | bool,
) -> None:
    view = policy({"customers": customers}).view(ORDERS)
    assert view.table.foreign_keys == ()
    kept = policy({"customers": hiding("name")}).view(ORDERS)
    assert kept.table.foreign_keys == ORDERS.foreign_keys


@for_each("type", ["table", "view"])
def test_definitions_are_hidden_if_anything_is_hidden(type: TableType) -> None:
    table = replace(ORDERS, type=type)
    assert policy({"audit_log": False}).view(table).table.ddl is None
    assert policy({"other": hiding("x")}).view(table).table.ddl is None
    assert policy({"orders": TableOptions(title="x")}).view(table).table.ddl == ORDERS.ddl


def test_a_hidden_column_that_does_not_exist_changes_nothing_more_than_one_that_does() -> None:
    absent = policy({"orders": hiding("other")}).view(ORDERS)
    assert absent.table.column_names == ORDERS.column_names
    named = [Index("", index.columns, index.unique) for index in ORDERS.indexes[:2]]
    assert sorted(absent.table.indexes, key=str) == sorted(named, key=str)
    assert absent.table.ddl is None


def test_a_declared_key_with_a_hidden_column_is_none_whether_the_column_exists_or_not() -> None:
    for name in ("card_number", "absent"):
        options = TableOptions(key=(name,), columns=ColumnOptions(hide=(name,)))
        assert policy({"orders": options}).view(ORDERS).table.key == ()


def test_a_masked_column_is_text_without_further_details() -> None:
    view = policy({"orders": hiding(email="hash", total="redact")}).view(ORDERS)
    email = view.table.columns[1]
    assert (email.kind, email.type, email.default, email.values) == ("text", "TEXT", None, ())
    assert view.table.columns[3].kind == "text"
    assert view.table.ddl is None
    assert view.masked == {"email", "total"}
    assert view.searchable == {"id", "card_number", "customer_id"}


def test_a_table_that_is_not_exposed_has_no_view() -> None:
    with pytest.raises(ValueError, match="not exposed"):
        policy({"orders": False}).view(ORDERS)


# -- keys


@for_each("options", [hiding("id"), hiding(id="hash"), hiding("ID")])
def test_rows_with_a_hidden_key_have_no_address(options: TableOptions) -> None:
    table = policy({"orders": options}).view(ORDERS).table
    assert (table.key, table.key_kind) == ((), "none")


def test_a_declared_key_addresses_rows() -> None:
    keyless = replace(ORDERS, key=(), key_kind="none")
    for key in (("id", "total"), ("ID", "total")):
        table = orders(key=key).view(keyless).table
        assert (table.key, table.key_kind) == (("id", "total"), "declared")
    table = orders(key=("id",)).view(ORDERS).table
    assert (table.key, table.key_kind) == (("id",), "primary")
    table = orders(key=("email",), columns=ColumnOptions(mask={"email": "hash"})).view(ORDERS).table
    assert (table.key, table.key_kind) == ((), "none")


def test_a_declared_key_of_a_type_that_is_no_key_leaves_rows_without_address() -> None:
    table = orders(key=("id", "customer_id")).view(ORDERS).table
    assert (table.key, table.key_kind) == ((), "none")


def test_a_declared_key_of_a_type_that_is_no_key_is_reported() -> None:
    found = orders(key=("id", "customer_id")).problems([ORDERS.name], [ORDERS])
    assert found == [
        Problem(
            "tables.orders.key",
            "rows of 'orders' have no address: values of type 'INTEGER' of 'customer_id' cannot "
            "be part of a key",
        )
    ]


def test_a_hidden_key_gives_way_to_the_next_one() -> None:
    others = (Key("unique", ("email",)), Key("unique", ("total",)), Key("rowid", ("rowid",)))
    table = replace(ORDERS, other_keys=others)
    hidden: list[str] = []
    for column, key in (("id", "email"), ("email", "total"), ("total", "rowid")):
        hidden.append(column)
        assert policy({"orders": hiding(*hidden)}).view(table).table.key == (key,)
    assert policy({"orders": hiding(*hidden)}).problems([ORDERS.name], [table]) == []


def test_a_hidden_column_named_rowid_hides_the_rowid() -> None:
    columns = (*ORDERS.columns, Column("RowId", "", "any"))
    table = replace(ORDERS, columns=columns, key=("_rowid_",), key_kind="rowid")
    assert policy({}).view(table).table.key == ("_rowid_",)
    assert policy({"orders": hiding("RowId")}).view(table).table.key == ()


def test_a_declared_key_with_missing_columns_falls_back_to_the_primary_key() -> None:
    table = orders(key=("idd",)).view(ORDERS).table
    assert (table.key, table.key_kind) == (("id",), "primary")


def test_the_rowid_stays_a_key() -> None:
    rowid = replace(ORDERS, key=("rowid",), key_kind="rowid")
    table = policy({"orders": hiding("id")}).view(rowid).table
    assert (table.key, table.key_kind) == (("rowid",), "rowid")


# -- masks


def test_rows_are_masked_in_the_columns_they_have() -> None:
    view = policy({"orders": hiding(email="redact", card_number="last4")}).view(ORDERS)
    rows = [(1, "a@b", "4111111111111234"), (2, None, "1234")]
    assert view.mask(rows, ["id", "email", "card_number"]) == [
        (1, "***", "…1234"),
        (2, None, "***"),
    ]
    assert view.mask([("a@b",)], ["email"]) == [("***",)]
    assert view.mask([(1,)], ["id"]) == [(1,)]


def test_hashes_without_a_key_are_the_same_throughout_a_process() -> None:
    rows: list[tuple[object, ...]] = [("a@b",)]
    one, two = (
        Policy({"orders": hiding(email="hash")}, "sqlite").view(ORDERS).mask(rows, ["email"])
        for _ in range(2)
    )
    assert one == two


def test_hashes_depend_on_the_key_of_the_server() -> None:
    rows: list[tuple[object, ...]] = [("a@b",)]
    one, two, again = (
        Policy({"orders": hiding(email="hash")}, "sqlite", key=ServerKey(key))
        .view(ORDERS)
        .mask(rows, ["email"])
        for key in (b"one", b"two", b"one")
    )
    assert one == again != two


def test_hashes_change_after_a_start_without_a_key() -> None:
    assert Policy({"orders": hiding(email="hash")}, "sqlite").hashes_change
    assert not Policy({"orders": hiding(email="hash")}, "sqlite", key=KEY).hashes_change
    assert not Policy({"orders": hiding(email="redact")}, "sqlite").hashes_change


# -- columns readable by SQL


def test_hidden_columns_and_tables_cannot_be_read() -> None:
    rules = policy({"orders": hiding("card_number", email="hash"), "audit_*": False})
    assert rules.readable("orders", "id")
    assert rules.readable("orders", "email")
    assert rules.readable("orders", "")
    assert rules.readable("other", "x")
    assert not rules.readable("orders", "card_number")
    assert not rules.readable("orders", "CARD_NUMBER")
    assert not rules.readable("audit_log", "x")
    assert rules.readable("audit_log", "x", through="audit_view")


@for_each(
    "where",
    ["deleted is null", 'x > 1 and "Deleted" = 0', "[deleted] = 0", "`deleted` -- x\n = 0"],
)
def test_a_row_filter_may_read_the_hidden_columns_it_names(where: str) -> None:
    options = TableOptions(columns=ColumnOptions(hide=("deleted", "secret")), where=where)
    rules = policy({"orders": options})
    assert rules.readable("orders", "deleted")
    assert not rules.readable("orders", "secret")


def test_a_row_filter_may_read_the_tables_it_names() -> None:
    where = "customer_id in (select id from vip)"
    rules = policy({"orders": TableOptions(where=where), "vip": False, "log": False})
    assert rules.readable("vip", "id")
    assert not rules.readable("log", "id")


def test_a_name_in_a_string_grants_a_row_filter_nothing() -> None:
    options = TableOptions(columns=ColumnOptions(hide=("deleted",)), where="state <> 'deleted'")
    assert not policy({"orders": options}).readable("orders", "deleted")


def test_the_change_hint_may_read_its_column() -> None:
    options = TableOptions(columns=ColumnOptions(hide=("at",)), change=ChangeHint(column="at"))
    assert policy({"orders": options}).readable("orders", "at")


def authorized(rules: Policy, sql: str) -> bool:
    """Run a statement on a real database with `readable` as its authorizer."""
    database = sqlite3.connect(":memory:")
    database.executescript(
        """
        create table people (id integer primary key, name, email, secret);
        create view names as select id, name || secret as name from people;
        """
    )
    views = {"names"}

    def ask(
        action: int, first: str | None, second: str | None, _: str | None, by: str | None
    ) -> int:
        if action != sqlite3.SQLITE_READ:
            return sqlite3.SQLITE_OK
        through = by if by in views else None
        allowed = rules.readable(first or "", second or "", through=through)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    database.set_authorizer(ask)
    try:
        database.execute(sql).fetchall()
    except sqlite3.DatabaseError:
        return False
    finally:
        database.close()
    return True


@for_each(
    ("sql", "allowed"),
    [
        ("select id, name from people", True),
        ("select id, email from people", True),
        ("select * from people", False),
        ("select 1 from people order by secret", False),
        ("select 1 from people where secret = 'x'", False),
        ("select count(*) from people group by people.secret", False),
        ("select (select p.secret from people p limit 1)", False),
        ("with c as (select secret from people) select * from c", False),
        ("select * from names", True),
        ("select count(*) from people", True),
    ],
)
def test_sqlite_authorizes_everything_a_statement_reads(sql: str, allowed: bool) -> None:
    rules = policy({"people": hiding("secret", email="hash")})
    assert authorized(rules, sql) == allowed


def test_a_view_on_a_table_that_is_not_exposed_can_be_read() -> None:
    rules = policy({"people": False})
    assert authorized(rules, "select id, name from names")
    assert not authorized(rules, "select id from people")


# -- restrictions of declared queries


def test_a_table_is_restricted_if_any_part_of_it_is_hidden() -> None:
    rules = policy(
        {
            "hidden": False,
            "some": TableOptions(where="x > 1"),
            "few": hiding("x"),
            "masked": hiding(x="hash"),
            "whole": TableOptions(title="x", rows=False),
        }
    )
    assert rules.is_restricting
    for name in ("hidden", "some", "few", "masked", "MASKED"):
        assert rules.restricts(TableName(None, name)), name
    for name in ("whole", "other"):
        assert not rules.restricts(TableName(None, name)), name
    assert not policy({"whole": TableOptions(title="x"), "t": True}).is_restricting


def test_an_entry_with_the_very_name_comes_before_others() -> None:
    rules = policy({"Orders": TableOptions(), "orders": hiding("x"), "t": True, "*": False})
    assert not rules.restricts(TableName(None, "Orders"))
    assert not rules.restricts(TableName(None, "t"))


# -- conditions


def test_a_condition_is_one_expression() -> None:
    found = orders(where="status <> 'a;b' -- not yet\n and (x or y) ").of(ORDERS.name)
    assert found is not None
    assert found.where is not None
    assert "--" not in found.where
    assert found.where.split() == ["status", "<>", "'a;b'", "and", "(x", "or", "y)"]


@for_each(
    ("where", "says"),
    [
        ("1=1; drop table t", "more than one statement"),
        ("1=1) or (1=1", "unbalanced parentheses"),
        ("x = :y", "has a parameter"),
        ("x = ?", "has a parameter"),
        ("x = 'a", "unclosed"),
        ("-- nothing", "is empty"),
    ],
)
def test_anything_but_a_single_condition_is_refused(where: str, says: str) -> None:
    with pytest.raises(ValueError, match=rf"^tables\.orders\.where: .*{says}"):
        orders(where=where)


# -- problems for `check`


def test_misspelt_names_are_reported_with_suggestions() -> None:
    rules = policy(
        {
            "orders": TableOptions(
                key=("idd",),
                columns=ColumnOptions(hide=("cardnumber",), mask={"emial": "hash"}),
                change=ChangeHint(column="updated_at"),
            ),
            "ordres": TableOptions(),
            "audit_*": False,
        }
    )
    withheld = "The table is not served until this is right"
    assert rules.problems([ORDERS.name], [ORDERS]) == [
        Problem("tables.ordres", "no table 'ordres'; did you mean 'orders'?"),
        Problem("tables.audit_*", "no table matches this pattern"),
        Problem(
            "tables.orders.columns.hide",
            f"no column 'cardnumber' in table 'orders'; did you mean 'card_number'? {withheld}",
        ),
        Problem(
            "tables.orders.columns.mask",
            f"no column 'emial' in table 'orders'; did you mean 'email'? {withheld}",
        ),
        Problem("tables.orders.key", "no column 'idd' in table 'orders'; did you mean 'id'?"),
        Problem("tables.orders.change.column", "no column 'updated_at' in table 'orders'"),
    ]


@for_each(
    ("tables", "stops"),
    [
        ({"order": hiding("email")}, "tables.order"),
        ({"Ordres": False}, "tables.Ordres"),
        ({"orders_": TableOptions(where="total > 1")}, "tables.orders_"),
        ({"order": TableOptions(rows=False)}, "tables.order"),
        ({"order": TableOptions(listed=False)}, "tables.order"),
        ({"ordr*": False}, "tables.ordr*"),
        ({"publik.orders": False}, "tables.publik.orders"),
        # Nothing is near, or nothing is hidden, or the table may come later.
        ({"audit": False, "secret_*": hiding("a")}, None),
        ({"order": TableOptions(title="Orders")}, None),
        ({"order": TableOptions(columns=ColumnOptions(hide=("a",)), optional=True)}, None),
        ({"order": TableOptions(expose=False, optional=True)}, None),
        # The near table has an entry of its own.
        ({"orders": hiding("email"), "orders2": hiding("ssn")}, "tables.orders2"),
        ({"orders": False, "orders2": False}, "tables.orders2"),
        ({"orders": TableOptions(title="Orders"), "order": hiding("email")}, "tables.order"),
        ({"order": hiding("email"), "*": TableOptions(where="1 = 1")}, "tables.order"),
    ],
)
def test_an_entry_beside_a_near_name_stops_what_it_was_to_protect(
    tables: Mapping[str, TableOptions | bool], stops: str | None
) -> None:
    found = policy(tables).unused([ORDERS.name, TableName(None, "people")])
    stopping = [problem.option for problem, _ in found if problem.stops]
    assert stopping == ([] if stops is None else [stops])


def test_expose_false_hides_a_table_as_false_does() -> None:
    assert not exposed({"orders": TableOptions(expose=False)}, "orders")
    assert exposed({"orders": TableOptions(expose=True)}, "orders")


@for_each(
    ("before", "after", "is_same"),
    [
        ({"a": hiding("x")}, {"a": hiding("x"), "b": TableOptions(title="B")}, True),
        ({"a": hiding("x"), "b_*": False}, {"c": TableOptions(key=("k",)), "b_*": False}, False),
        ({"b_*": False}, {"c": TableOptions(key=("k",)), "b_*": False}, True),
        ({"b_*": False}, {"b_*": False, "b_1": TableOptions(title="B")}, True),
        # Without a rule, but it keeps the table from one.
        ({"b_*": False}, {"b_1": TableOptions(title="B"), "b_*": False}, False),
        ({"orders": False}, {"orders": False, "Orders": TableOptions(title="O")}, False),
        ({"s.*": False}, {"orders": TableOptions(title="O"), "s.*": False}, False),
        ({"orders": False}, {"*": TableOptions(title="All"), "orders": False}, False),
        ({"a": hiding("x")}, {"a": hiding("y")}, False),
        ({"a": TableOptions()}, {"a": TableOptions(rows=False)}, False),
        ({"a": TableOptions()}, {"a": TableOptions(expose=True)}, False),
    ],
)
def test_the_policy_digest_does_not_change_by_an_entry_without_a_rule(
    before: Mapping[str, TableOptions], after: Mapping[str, TableOptions], is_same: bool
) -> None:
    assert (policy(before).digest() == policy(after).digest()) is is_same


def test_a_hidden_change_column_is_reported() -> None:
    columns = ColumnOptions(hide=("card_number",))
    rules = policy(
        {"orders": TableOptions(columns=columns, change=ChangeHint(column="card_number"))}
    )
    (problem,) = rules.problems([ORDERS.name], [ORDERS])
    assert problem.option == "tables.orders.change.column"
    assert "'card_number' is hidden or masked" in problem.message


def test_options_that_match_cause_no_problem() -> None:
    rules = policy(
        {
            "orders": TableOptions(key=("ID",), columns=ColumnOptions(hide=("card_number",))),
            "audit_*": False,
        }
    )
    assert rules.problems([ORDERS.name, TableName(None, "audit_log")], [ORDERS]) == []


def test_a_column_of_a_pattern_needs_to_exist_in_only_one_of_its_tables() -> None:
    other = replace(ORDERS, name=TableName(None, "other"), columns=ORDERS.columns[:1])
    rules = policy({"o*": hiding("email", "absent")})
    assert rules.problems([ORDERS.name, other.name], [ORDERS, other]) == [
        Problem(
            "tables.o*.columns.hide",
            "no column 'absent' in any such table. These tables are not served until this is right",
        ),
    ]


def test_an_entry_shadowed_by_an_earlier_one_is_reported() -> None:
    rules = policy({"o*": False, "orders": True})
    assert rules.problems([ORDERS.name], []) == [
        Problem("tables.orders", "is never used; an earlier entry matches the same tables"),
    ]


def test_columns_that_only_a_later_entry_hides_or_masks_are_reported() -> None:
    rules = policy(
        {"orders": TableOptions(title="Orders"), "o*": hiding("card_number", email="hash")}
    )
    (problem,) = rules.problems([ORDERS.name, TableName(None, "old")], [ORDERS])
    assert problem == Problem(
        "tables.orders",
        "shows 'email', 'card_number', which the entry 'o*' hides or masks: the first entry that "
        "matches a table counts; repeat its options here, or write `expose: true`",
    )
    decided = (TableOptions(expose=True), hiding("email"))
    later = (False, TableOptions(title="Others"))
    for first in decided:
        assert (
            policy({"orders": first, "o*": hiding("email")}).problems(
                [ORDERS.name, TableName(None, "old")], [ORDERS]
            )
            == []
        )
    for other in later:
        assert (
            policy({"orders": TableOptions(title="Orders"), "o*": other}).problems(
                [ORDERS.name, TableName(None, "old")], [ORDERS]
            )
            == []
        )


def test_rows_that_only_a_later_entry_filters_are_reported() -> None:
    rules = policy({"orders": TableOptions(title="Orders"), "o*": TableOptions(where="total > 0")})
    (problem,) = rules.problems([ORDERS.name, TableName(None, "old")], [ORDERS])
    assert problem.message.startswith("shows all rows, which the entry 'o*' hides")


def test_rows_without_an_address_are_reported() -> None:
    rules = policy({"orders": hiding("id")})
    assert rules.problems([ORDERS.name], [ORDERS]) == [
        Problem(
            "tables.orders.columns",
            "rows of 'orders' have no address: their key column 'id' is hidden or masked",
        )
    ]


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="an empty name"):
        policy({"": False})


# -- searched columns


def searching(*names: str, **more: object) -> TableOptions:
    return TableOptions(search=names, **more)  # pyright: ignore[reportArgumentType]


def test_only_visible_columns_named_by_the_manifest_are_searched() -> None:
    options = searching("card_number", "EMAIL", "total", "gone")
    view = policy({"orders": options}).view(ORDERS)
    assert view.searched("sqlite") == ("email", "card_number", "total")
    covered = searching(
        "email",
        "Total",
        "customer_id",
        columns=ColumnOptions(hide=("Email",), mask={"total": "hash"}),
    )
    assert policy({"orders": covered}).view(ORDERS).searched("sqlite") == ("customer_id",)
    assert policy({"orders": TableOptions(search=False)}).view(ORDERS).searched("sqlite") == ()


def test_visible_columns_of_text_are_searched_by_default() -> None:
    assert policy({}).view(ORDERS).searched("sqlite") == ("email", "card_number")
    covered = TableOptions(columns=ColumnOptions(hide=("Email",), mask={"card_number": "hash"}))
    assert policy({"orders": covered}).view(ORDERS).searched("sqlite") == ()
    assert policy({"orders": TableOptions(rows=False)}).view(ORDERS).searched("sqlite") == ()
    assert policy({"orders": covered}).problems([ORDERS.name], [ORDERS]) == []


def test_a_column_in_another_case_is_searched_only_if_unambiguous() -> None:
    columns = (*ORDERS.columns, Column("Email", "TEXT", "text"))
    table = replace(ORDERS, columns=columns)
    for name, found in (("email", ("email",)), ("Email", ("Email",)), ("EMAIL", ())):
        assert policy({"orders": searching(name)}).view(table).searched("sqlite") == found


def test_columns_without_text_are_not_searched() -> None:
    columns = (
        Column("picture", "BLOB", "blob"),
        Column("place", "point", "other"),
        Column("note", "TEXT", "text"),
    )
    view = policy({"orders": searching("picture", "place", "note")}).view(
        replace(ORDERS, columns=columns)
    )
    assert view.searched("postgresql") == ("place", "note")
    assert view.searched("mariadb") == ("note",)


def test_unsearchable_columns_are_reported_with_the_reason() -> None:
    table = replace(ORDERS, columns=(*ORDERS.columns, Column("picture", "BLOB", "blob")))
    options = searching(
        "emial",
        "card_number",
        "Total",
        "picture",
        "email",
        columns=ColumnOptions(hide=("card_number",), mask={"total": "hash"}),
    )
    found = policy({"orders": options}).problems([table.name], [table])
    assert found == [
        Problem(
            "tables.orders.search", "no column 'emial' in table 'orders'; did you mean 'email'?"
        ),
        Problem(
            "tables.orders.search", "'card_number' is hidden or masked, so it is never searched"
        ),
        Problem("tables.orders.search", "'Total' is hidden or masked, so it is never searched"),
        Problem(
            "tables.orders.search",
            "'picture' of 'orders' is never searched: values of type 'BLOB' are not text",
        ),
    ]


def test_a_search_that_can_find_no_rows_is_reported() -> None:
    found = policy({"orders": searching("email", rows=False)}).problems([ORDERS.name], [ORDERS])
    assert [each.message for each in found] == [
        "rows are not exposed (`rows: false`), so none can be found"
    ]
    keyless = replace(ORDERS, key=(), key_kind="none")
    found = policy({"orders": searching("email")}).problems([ORDERS.name], [keyless])
    assert [each.message for each in found] == [
        "rows of 'orders' have no key, so none can be found; declare a `key`"
    ]
    given = searching("email", key=("id",))
    assert policy({"orders": given}).problems([ORDERS.name], [keyless]) == []
    assert policy({"orders": searching("email")}).problems([ORDERS.name], [ORDERS]) == []
