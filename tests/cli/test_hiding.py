"""Rules that hide nothing, and published secrets: what each command says and refuses."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from resource_server.manifest.http import is_published
from tests.cli.conftest import ROOT, Client, Lines, Run, connected, started

SHOP = (
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, ssn TEXT);"
    "INSERT INTO customers VALUES (1, 'Ann', '4711-secret');"
)
TABLE_CUSTOMER = (
    "databases:\n  shop:\n    url: sqlite:///shop.db\n    tables:\n"
    "      customer: {columns: {hide: [ssn]}}\n"
)
COLUMN_NOTACOL = TABLE_CUSTOMER.replace("customer:", "customers:").replace("ssn", "notacol")
FOLDER_DRAFTZ = "roots:\n  r:\n    path: docs\n    directories:\n      draftz: {exposed: false}\n"
PATTERN_DRAFTZ = "roots:\n  r:\n    path: docs\n    exclude: [draftz/]\n"

NO_TABLE = (
    "mcp-resources.yaml:5:17: databases.shop.tables.customer: no table 'customer'; did you mean "
    "'customers'? Nothing of the database is served until this is right, or has `optional: true` "
)
NO_COLUMN = (
    "mcp-resources.yaml:5:35: databases.shop.tables.customers.columns.hide: no column 'notacol' in "
    "table 'customers'. The table is not served until this is right"
)
NO_FOLDER = (
    "mcp-resources.yaml:5:15: roots.r.directories.draftz: no such directory; did you mean "
    "'drafts'? Nothing of the folder is served until this is right, or has `optional: true` "
)
NO_MATCH = "mcp-resources.yaml:4:14: roots.r.exclude: 'draftz/' matches nothing"


class Case(NamedTuple):
    """A manifest with a rule that hides nothing, and what it should have hidden."""

    text: str
    says: str
    uri: str
    is_served: bool = False


CASES = pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(TABLE_CUSTOMER, NO_TABLE, "sqlite://shop/customers/1"), id="customer"),
        pytest.param(Case(COLUMN_NOTACOL, NO_COLUMN, "sqlite://shop/customers/1"), id="notacol"),
        pytest.param(Case(FOLDER_DRAFTZ, NO_FOLDER, "file:///r/drafts/plan.md"), id="draftz"),
        # There is no telling what a pattern should have hidden.
        pytest.param(
            Case(PATTERN_DRAFTZ, NO_MATCH, "file:///r/drafts/plan.md", is_served=True), id="pattern"
        ),
    ],
)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A folder with a database and a folder, whose manifest is still missing."""
    (tmp_path / "docs" / "drafts").mkdir(parents=True)
    (tmp_path / "docs" / "drafts" / "plan.md").write_text("secret plan")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.executescript(SHOP)
    return tmp_path


def written(top: Path, text: str) -> Path:
    (top / "mcp-resources.yaml").write_text(text)
    return top


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
@CASES
def test_check_and_strict_refuse_rules_that_hide_nothing(top: Path, run: Run, case: Case) -> None:
    text, says, *_ = case
    checked = run("check", written(top, text))
    assert checked.status == 1
    assert says in checked.out
    assert "hidden  " not in checked.out.replace("hidden     1, this root's manifest", "")
    strict = run("serve", top, "--strict")
    assert strict.status == 1
    assert says in strict.err
    assert "refused to serve with" in strict.err
    assert run("serve", top, "--strict", "--http", "127.0.0.1:0").status == 1


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
@CASES
def test_read_list_and_install_name_rules_that_hide_nothing(
    top: Path, run: Run, case: Case
) -> None:
    text, says, uri, is_served = case
    written(top, text)
    read = run("read", top, uri)
    assert says in read.err
    assert ("secret" in read.out) is is_served
    assert read.status == (0 if is_served else 1)
    listed = run("list", top)
    assert says in listed.err
    assert (uri in listed.out or "plan.md" in listed.out) is is_served
    installed = run("install", "claude-code", top, "--print")
    assert (installed.status, says in installed.err) == (0, True)


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
@CASES
def test_serve_names_rules_that_hide_nothing_at_the_start_and_after_a_reload(
    top: Path, case: Case
) -> None:
    text, says, uri, is_served = case
    written(top, text)
    with connected(top) as client:
        client.errors.until(says)
        assert ("result" in client.request("resources/read", uri=uri)) is is_served
        # Said again after a reload that mends nothing, and not after one that does.
        written(top, text + "server: {title: T}\n")
        client.errors.until(says)
        assert ("result" in client.request("resources/read", uri=uri)) is is_served
        mended = text.replace("draftz", "drafts").replace("customer:", "customers:")
        written(top, mended.replace("notacol", "ssn"))
        until_served(client, uri, is_there="sqlite" in uri)
        assert says not in "".join(client.errors.rest(0.3))


def until_served(client: Client, uri: str, *, is_there: bool) -> None:
    """Wait until a rule holds: the row has no secret, or the document is not there."""
    while True:
        answer = client.request("resources/read", uri=uri)
        if is_there and "result" in answer:
            assert "4711" not in str(answer)
            return
        if not is_there and "not found" in str(answer).lower():
            return


@pytest.mark.guarantee("rules-that-hide-nothing-stop")
def test_what_may_come_later_is_no_mistake(top: Path, run: Run) -> None:
    later = TABLE_CUSTOMER.replace("{columns", "{optional: true, columns")
    later += FOLDER_DRAFTZ.replace("exposed: false", "exposed: false, optional: true")
    assert run("check", written(top, later)).status == 0
    assert run("read", top, "sqlite://shop/customers/1").err == ""


# -- published secrets

AUTH_SAMPLE = "http: {auth: {tokens: ['${RESOURCE_SERVER_TOKEN:-change-this-token-first}']}}\n"
KEY = "server: {key: '${RESOURCE_SERVER_KEY:-change-this-key-before-you-start-it}'}\n"
REASON = "is a sample, which everybody may know; write one as 'openssl rand -hex 32' prints it"
GOOD = "http: {auth: {tokens: [0123456789abcdef]}}\n"


@pytest.mark.guarantee("published-secrets-refused")
@pytest.mark.parametrize(
    ("text", "where"),
    [
        (AUTH_SAMPLE, "http.auth.tokens[0]: "),
        ("http: {auth: {tokens: [{token: Change_This_TOKEN_9}]}}\n", "http.auth.tokens[0]: "),
        (GOOD + KEY, "server.key: "),
        (GOOD + "server: {key: {file: key.txt}}\n", "server.key: "),
    ],
)
def test_the_published_token_is_refused_on_0_0_0_0_and_warned_of_elsewhere(
    top: Path, run: Run, text: str, where: str
) -> None:
    (top / "key.txt").write_text("change-this-key-before-you-start-it\n")
    written(top, f"roots: {{r: {{path: docs}}}}\n{text}")
    for options in ((), ("--insecure",)):
        refused = run("serve", top, "--http", "0.0.0.0:8000", *options)
        assert refused.status == 1
        last = refused.err.splitlines()[-1]
        assert "refused to listen on 0.0.0.0:8000 with a published secret: " in last
        assert f"{where}{REASON}" in last
    with started("serve", top, "--http", "127.0.0.1:0", stdout=subprocess.DEVNULL) as (_, errors):
        assert f"{where}{REASON}" in Lines(errors).until("serving at ")[0]
    checked = run("check", top)
    assert (checked.status, f"{where}{REASON}" in checked.out) == (0, True)
    assert f"{where}{REASON}" in run("list", top).err


@pytest.mark.guarantee("published-secrets-refused")
def test_a_reload_brings_no_published_key_to_other_machines(top: Path) -> None:
    written(top, f"roots: {{r: {{path: docs}}}}\n{GOOD}")
    with started("serve", top, "--http", "0.0.0.0:0", stdout=subprocess.DEVNULL) as (_, errors):
        lines = Lines(errors)
        assert len(lines.until("serving at ")) == 1
        written(top, f"roots: {{r: {{path: docs}}}}\n{GOOD}{KEY}")
        assert "its last version stays in force" in lines.next()
        assert f"server.key: {REASON}" in lines.next()


_SAMPLES = (
    r"\$\{RESOURCE_SERVER_\w+:-([^}]+)\}",
    r"RESOURCE_SERVER_(?:TOKEN|KEY)\s*[=:]\s*[\"']?(?!-)([\w.~+/-]{8,})",
    r"Bearer ([\w.~+/-]{8,})",
    r"tokens:\s*\[\s*[\"']?([\w.~+/-]{16,})",
    r"token:\s*[\"']?([\w.~+/-]{16,})",
    r"server:\s*\{\s*key:\s*[\"']?([\w.~+/-]{16,})",
    r"^\s+key:\s*[\"']?([\w.~+/-]{32,})",
)


def samples() -> Iterator[tuple[str, str]]:
    """Yield the tokens and keys that are published with the program, each with its file."""
    places = ("README.md", "docs/*.md", "examples/**/*", "plugins/**/*", "mcpb/*", "Dockerfile")
    places += ("mcp-resources.yaml", "resource_server/manifest/starter.py")
    for file in sorted({each for place in places for each in ROOT.glob(place) if each.is_file()}):
        text = file.read_bytes().decode(errors="replace")
        for pattern in _SAMPLES:
            for found in re.findall(pattern, text, re.MULTILINE):
                yield str(file.relative_to(ROOT)), found


@pytest.mark.guarantee("published-secrets-refused")
def test_every_sample_secret_of_docs_and_examples_is_known_as_published() -> None:
    found = dict(samples())
    assert {"docs/http.md", "docs/operation.md"} <= found.keys()
    assert {place: secret for place, secret in samples() if not is_published(secret)} == {}
