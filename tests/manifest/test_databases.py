"""The section `databases` of a manifest."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from resource_server import plugins
from resource_server.errors import ManifestError
from resource_server.manifest import MountSpec
from resource_server.manifest.load import load
from resource_server.providers.database import options

EVERYTHING = """\
databases:
  shop:
    url: sqlite:///data/shop.db
    title: The shop
    tables:
      orders:
        title: Orders
        description: One row per order
        key: [id]
        columns: {hide: [card_number], mask: {email: hash}}
        where: "status <> 'draft'"
        rows: true
        change: {column: updated_at}
        listed: false
      customers:
      "audit_*": false
    schemas: [public]
    queries:
      top:
        title: Best customers
        sql: select name from customers where country = :country limit :limit
        parameters:
          country: {type: string, description: ISO code, examples: [DE, FR]}
          limit: {type: integer, default: 10, minimum: 1, maximum: 100}
    limits: {rows: 50, max_rows: 500, bytes: 2MiB, cell: 1KiB, timeout: 1s, query_timeout: 1m}
    watch: poll
    interval: 1s
    require_readonly_role: true
"""


def specs(folder: pathlib.Path, text: str) -> tuple[MountSpec, ...]:
    file = folder / "m.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file).mounts


def problems(folder: pathlib.Path, text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        specs(folder, text)
    return [str(found).removeprefix(f"{folder}/m.yaml:") for found in caught.value.diagnostics]


def provider(folder: pathlib.Path, text: str) -> Any:
    (folder / "m.yaml").write_text(text, encoding="utf-8")
    manifest = load(folder / "m.yaml")
    return plugins.load_provider(manifest.mounts[0], manifest)


def test_a_database_is_read_with_all_its_options(tmp_path: pathlib.Path) -> None:
    (spec,) = specs(tmp_path, EVERYTHING)
    assert (spec.name, spec.base, spec.use) == ("shop", "sqlite://shop/", "database")
    assert (spec.title, spec.path, spec.watch) == ("The shop", ("databases", "shop"), True)
    found = provider(tmp_path, EVERYTHING)
    assert found.url == f"sqlite:///{tmp_path}/data/shop.db"
    assert found.tables == {
        "orders": options.TableOptions(
            title="Orders",
            description="One row per order",
            key=("id",),
            columns=options.ColumnOptions(hide=("card_number",), mask={"email": "hash"}),
            where="status <> 'draft'",
            change=options.ChangeHint(column="updated_at"),
            listed=False,
        ),
        "customers": options.TableOptions(),
        "audit_*": False,
    }
    assert found.schemas == ("public",)
    assert found.queries["top"].parameters == {
        "country": options.Parameter(description="ISO code", examples=("DE", "FR")),
        "limit": options.Parameter(type="integer", default=10, minimum=1, maximum=100),
    }
    assert (found.limits.rows, found.limits.bytes) == (50, 2 * 1024 * 1024)
    assert (found.limits.timeout, found.limits.query_timeout) == (1, 60)
    assert (found.watch, found.interval) == ("poll", 1)
    assert found.require_readonly_role is True


def test_omitted_options_have_their_defaults(tmp_path: pathlib.Path) -> None:
    found = provider(tmp_path, "databases: {shop: {url: 'sqlite:///shop.db'}}")
    assert (found.tables, found.schemas, found.queries) == ({}, (), {})
    assert found.limits == options.ReadLimits()
    assert (found.watch, found.interval) == ("auto", None)
    assert found.require_readonly_role is False


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("sqlite+aiosqlite:///x.db", "sqlite://shop-1_a/"),
        ("postgresql://host/db", "postgresql://shop-1_a/"),
        ("postgresql+asyncpg://me@host/db", "postgresql://shop-1_a/"),
        ("mysql+asyncmy://host/db", "mysql://shop-1_a/"),
        ("mariadb://host/db", "mariadb://shop-1_a/"),
    ],
)
def test_the_base_uri_consists_of_the_engine_and_the_name(
    tmp_path: pathlib.Path, url: str, base: str
) -> None:
    (spec,) = specs(tmp_path, f"databases: {{shop-1_a: {{url: '{url}'}}}}")
    assert spec.base == base
    (spec,) = specs(tmp_path, f"databases: {{a: {{url: '{url}', uri: 'shop://a/'}}}}")
    assert spec.base == "shop://a/"


def test_a_database_may_be_listed_among_the_providers(tmp_path: pathlib.Path) -> None:
    text = "providers: {Shop.1: {use: database, url: 'sqlite:///shop.db', uri: 'sqlite://x/'}}"
    assert provider(tmp_path, text).url == f"sqlite:///{tmp_path}/shop.db"


def test_the_url_may_come_from_the_environment(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:topsecret@host/db")
    text = "databases: {shop: {url: '${DATABASE_URL}'}}"
    assert provider(tmp_path, text).url == "postgresql://me:topsecret@host/db"
    assert "topsecret" not in repr(specs(tmp_path, text))
    monkeypatch.setenv("PASSWORD", "topsecret")
    text = "databases: {shop: {url: 'mysql://me:${PASSWORD}@host/db'}}"
    assert provider(tmp_path, text).url == "mysql://me:topsecret@host/db"
    monkeypatch.delenv("DATABASE_URL")
    assert problems(tmp_path, "databases: {shop: {url: '${DATABASE_URL}', tabels: {}}}") == [
        "1:25: databases.shop.url: environment variable DATABASE_URL is not set; set it or write "
        "${DATABASE_URL:-default}",
        "1:44: databases.shop.tabels: unknown option; did you mean 'tables'?",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "1:13: databases.a: option 'url' is missing"),
        ("{url: 5}", "1:22: databases.a.url: expected text, found the number 5; put it in quotes"),
        (
            "{url: 'sqlite:///x', tabels: {}}",
            "1:37: databases.a.tabels: unknown option; did you mean 'tables'?",
        ),
        (
            "{url: 'sqlite:///x', tables: {t: {colums: {}}}}",
            "1:50: databases.a.tables.t.colums: unknown option; did you mean 'columns'?",
        ),
        (
            "{url: 'sqlite:///x', tables: {t: {columns: {mask: {c: hsh}}}}}",
            "1:70: databases.a.tables.t.columns.mask.c: expected one of hash, redact, last4, "
            "found 'hsh'; did you mean 'hash'?",
        ),
        (
            "{url: 'sqlite:///x', tables: {t: {key: id}}}",
            "1:55: databases.a.tables.t.key: expected a list, found 'id'; put it in brackets",
        ),
        (
            "{url: 'sqlite:///x', tables: {t: true}}",
            "1:49: databases.a.tables.t: expected a mapping or false, found true",
        ),
        (
            "{url: 'sqlite:///x', queries: {q: {}}}",
            "1:47: databases.a.queries.q: option 'sql' is missing",
        ),
        (
            "{url: 'sqlite:///x', queries: {q: {sql: s, parameters: {p: {type: int}}}}}",
            "1:82: databases.a.queries.q.parameters.p.type: expected one of string, integer, "
            "number, boolean, date, datetime, found 'int'; did you mean 'integer'?",
        ),
        (
            "{url: 'sqlite:///x', limits: {rows: 9, query_timeout: 0s}}",
            "1:70: databases.a.limits.query_timeout: a timeout of 0 allows no reads; write "
            "one such as 2s",
        ),
        (
            "{url: 'sqlite:///x', limits: {rows: 0}}",
            "1:52: databases.a.limits.rows: expected 1 or more, found the number 0",
        ),
        (
            "{url: 'sqlite:///x', watch: always}",
            "1:44: databases.a.watch: expected one of auto, notify, poll, off, found 'always'",
        ),
        (
            "{url: 'sqlite:///x', queries: {q: {sql: select 1, access: {scopes: [a b]}}}}",
            "1:84: databases.a.queries.q.access.scopes[0]: expected text that matches "
            r"^[!#-\[\]-~]+$, found 'a b'",
        ),
        (
            "{url: 'sqlite:///x', uri: 'postgresql://me:secret@host/db'}",
            "1:42: databases.a.uri: the location of a database is its 'url'; 'uri' is what clients "
            "see: sqlite://shop/",
        ),
        (
            "'postgresql://me:secret@host/db'",
            "1:16: databases.a: expected a mapping of options, found another value",
        ),
        (
            "{url: 'jdbc:postgresql://host/db?user=me&password=secret'}",
            "1:22: databases.a.url: a JDBC URL; write postgresql://USER:PASSWORD@host/db",
        ),
    ],
)
def test_each_problem_has_a_position_and_a_remedy(
    tmp_path: pathlib.Path, text: str, message: str
) -> None:
    found = problems(tmp_path, f"databases: {{a: {text}}}")
    assert found == [message]
    assert "secret" not in found[0]


def test_an_unusable_url_hides_no_other_problem(tmp_path: pathlib.Path) -> None:
    found = problems(tmp_path, "databases: {a: {url: 'x:secret', limits: {rows: 0}}}")
    assert [line.split(": ")[1] for line in found] == ["databases.a.url", "databases.a.limits.rows"]
    assert not any("secret" in line for line in found)


@pytest.mark.parametrize("name", ["Shop", "a.b", "a b", "x" * 65, "ü"])
def test_a_name_must_be_unchanged_by_urls(tmp_path: pathlib.Path, name: str) -> None:
    (found,) = problems(tmp_path, f"databases: {{{name}: {{url: 'sqlite:///x'}}}}")
    assert found.endswith(
        "the name of a database consists of lower-case letters, digits, '_' and '-', 64 at most"
    )


def test_the_password_is_scrubbed_from_provider_messages(tmp_path: pathlib.Path) -> None:
    text = "databases: {a: {url: 'mysql://me:top%20secret@h/d'}}"
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    positions = load(tmp_path / "m.yaml").positions
    assert positions.scrub("refused top secret, top%20secret") == "refused ***, ***"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("tables.orders.key", ("tables", "orders", "key")),
        ("tables.orders.columns.hide", ("tables", "orders", "columns", "hide")),
        ("tables.public.orders.where", ("tables", "public.orders", "where")),
        ("tables.public", ("tables", "public")),
        ("tables.public.nothing", ("tables", "public")),
        ("tables.audit_*", ("tables", "audit_*")),
        ("nothing", ()),
        ("", ()),
    ],
)
def test_a_message_about_an_option_has_its_position(
    tmp_path: pathlib.Path, words: str, where: tuple[str, ...]
) -> None:
    (tmp_path / "m.yaml").write_text(
        "databases:\n  a:\n    url: sqlite:///x\n    tables:\n"
        "      orders: {key: [id], columns: {hide: [a]}}\n      public: {where: a}\n"
        "      public.orders: {where: b}\n      'audit_*': false\n"
    )
    positions = load(tmp_path / "m.yaml").positions
    mount = ("databases", "a")
    assert positions.named(mount, words) == (*mount, *where)


class Picky:
    def __init__(self, queries: dict[str, dict[str, str]]) -> None:
        raise ValueError("queries.a.b: sql: not a SELECT: this")


def test_a_provider_can_name_options_at_any_depth(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.yaml").write_text("providers:\n  x: {use: x.py, queries: {a.b: {sql: drop}}}\n")
    with pytest.raises(ManifestError) as caught:
        load(tmp_path / "m.yaml", find_class=lambda reference, directory: Picky)
    (found,) = caught.value.diagnostics
    assert (found.line, found.column) == (2, 39)
    assert (found.where, found.message) == ('providers.x.queries["a.b"].sql', "not a SELECT: this")


def test_a_url_with_a_parameter_that_cannot_be_honoured_is_refused_at_its_place(
    tmp_path: pathlib.Path,
) -> None:
    text = (
        "databases:\n"
        "  a: {url: 'postgres://me:s3cret@h/d?conect_timeout=5'}\n"
        "  b: {url: 'mysql://me:p@ss#word@h/d?ssl-mode=maybe'}\n"
        "  c: {url: 'postgres://h/d', sql: {url: 'postgres://h/d?channel_binding=require'}}\n"
        "  d: {url: 'mysql://me:p@h:99999/d'}\n"
    )
    assert problems(tmp_path, text) == [
        "2:12: databases.a.url: the parameter 'conect_timeout' is unknown; did you mean "
        "'connect_timeout'?",
        "3:12: databases.b.url: ssl-mode=maybe cannot be honoured; known: disabled, preferred, "
        "required, verify_ca, verify_identity",
        "4:41: databases.c.sql.url: channel_binding=require cannot be honoured; the driver has "
        "none; write 'prefer', and sslmode=verify-full to prove the server by its certificate",
        "5:12: databases.d.url: 99999 is no port; ports are numbers from 1 to 65535",
    ]


def test_a_database_is_known_by_one_scheme_however_its_url_spells_it(
    tmp_path: pathlib.Path,
) -> None:
    text = "databases:\n  a: {url: 'postgres://me:p@ss@h/d'}\n  b: {url: 'mysql2://h/d'}\n"
    assert [spec.base for spec in specs(tmp_path, text)] == ["postgresql://a/", "mysql://b/"]
