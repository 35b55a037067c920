"""Rows by claims over HTTP: what each token is shown, told and refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cases import for_each
from tests.transports.program import (
    Program,
    RawConnection,
    Session,
    initialize,
    message,
    modern,
    request,
    running,
)

ALICE, BOB = "alice-0123456789abcdef", "bob-0123456789abcdef"
ALICE_AGAIN, ALICE_AS_BOB = "again-0123456789abcdef", "as-bob-0123456789abcdef"
NOBODY = "nobody-0123456789abcdef"
ORDERS = "sqlite://shop/orders"
ROWS = f"{ORDERS}/~rows"

_AUTH = f"""
http:
  auth:
    tokens:
      - {{token: {ALICE}, subject: alice, claims: {{login: alice}}}}
      - {{token: {ALICE_AGAIN}, subject: alice, claims: {{login: alice, more: [1]}}}}
      - {{token: {ALICE_AS_BOB}, subject: alice, claims: {{sub: bob, login: bob}}}}
      - {{token: {BOB}, subject: bob, claims: {{login: bob}}}}
      - {{token: {NOBODY}, subject: nobody, claims: {{sub: null}}}}
"""
_MANIFEST = """
server: {cache: {scope: public}, page_size: 2}
databases: {shop: {url: "sqlite:///shop.db", sql: true, tables: {orders: {WHERE}}}}
"""


def manifest(where: str = "where: 'owner = :claims.sub'") -> str:
    return _MANIFEST.replace("{WHERE}", f"{{{where}}}") + _AUTH


def make_database(place: Path) -> None:
    """Write orders of Alice and Bob, and marks of nobody."""
    rows = [(n, "bob" if n % 3 else "alice", f"note{n} of apple") for n in range(12)]
    with closing(sqlite3.connect(place / "shop.db")) as made:
        made.execute("create table orders (id integer primary key, owner text, note text)")
        made.execute("create table marks (id integer primary key)")
        made.executemany("insert into orders values (?, ?, ?)", rows)
        made.commit()


@contextmanager
def serving(place: Path, where: str = "where: 'owner = :claims.sub'") -> Generator[Program]:
    make_database(place)
    (place / "mcp-resources.yaml").write_text(manifest(where))
    with running(place / "mcp-resources.yaml") as started:
        yield started


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Generator[Program]:
    with serving(tmp_path_factory.mktemp("claims")) as started:
        yield started


def write(program: Program, sql: str) -> None:
    with closing(sqlite3.connect(program.folder.parent / "shop.db", timeout=30)) as opened:
        opened.execute(sql)
        opened.commit()


def bearer(token: str) -> str:
    return f"Bearer {token}"


def ask(program: Program, token: str, method: str, **params: Any) -> Any:
    return program.ask(modern(method, params, authorization=bearer(token))).json


def rows(program: Program, token: str, query: str = "") -> list[int]:
    result = ask(program, token, "resources/read", uri=f"{ROWS}{query}")["result"]
    assert result["cacheScope"] == "private"
    return [row["id"] for row in json.loads(result["contents"][0]["text"])["rows"]]


def tool(program: Program, token: str, name: str, **arguments: Any) -> str:
    called = {"name": name, "arguments": arguments}
    posted = modern("tools/call", called, authorization=bearer(token), mcp_name=name)
    return json.dumps(program.ask(posted).json["result"])


@pytest.mark.guarantee("rows-are-the-callers")
def test_each_token_is_shown_its_rows(program: Program) -> None:
    own = {ALICE: [0, 3, 6, 9], BOB: [1, 2, 4, 5, 7, 8, 10, 11], NOBODY: []}
    own |= {ALICE_AGAIN: own[ALICE], ALICE_AS_BOB: own[BOB]}
    for token, found in own.items():
        assert rows(program, token) == found
        counted = ask(program, token, "resources/read", uri=f"{ROWS}?count")["result"]
        assert f'"count":{len(found)}' in counted["contents"][0]["text"]
        searched = tool(program, token, "search_resources", query="apple", limit=50)
        assert {n for n in range(12) if f"note{n} of apple" in searched} == set(found)
        sql = "select group_concat(id) as ids from (select id from orders order by id)"
        answered = tool(program, token, "query_database", sql=sql)
        assert (",".join(map(str, found)) or "null") in answered
        for n in range(12):
            answer = ask(program, token, "resources/read", uri=f"{ORDERS}/{n}")
            assert ("result" in answer) is (n in found)


@pytest.mark.guarantee("rows-are-the-callers")
def test_a_cursor_of_another_caller_shows_no_row_of_it(program: Program) -> None:
    page = ask(program, ALICE, "resources/read", uri=f"{ROWS}?limit=2")["result"]
    following = json.loads(page["contents"][0]["text"])["next"].partition("?")[2]
    assert rows(program, ALICE, f"?{following}") == [6, 9]
    assert rows(program, BOB, f"?{following}") == [4, 5]
    assert rows(program, NOBODY, f"?{following}") == []
    first = ask(program, ALICE, "resources/list", uri=ORDERS)["result"]
    after = ask(program, BOB, "resources/list", uri=ORDERS, cursor=first["nextCursor"])
    shown = {each["uri"] for each in after["result"]["resources"]}
    assert shown.isdisjoint({f"{ORDERS}/{n}" for n in (0, 3, 6, 9)})


@for_each(("token", "status"), [(ALICE_AGAIN, 200), (ALICE_AS_BOB, 404), (BOB, 404)])
@pytest.mark.guarantee("rows-are-the-callers")
def test_a_session_is_of_one_value_of_a_claim(program: Program, token: str, status: int) -> None:
    begun = program.ask(request("POST", initialize("2025-11-25"), authorization=bearer(ALICE)))
    headers = {"mcp_session_id": begun.headers["mcp-session-id"]}
    posted = request("POST", message("ping"), authorization=bearer(token), **headers)
    assert program.ask(posted).status == status
    if status == 404:
        opened = request("GET", authorization=bearer(token), **headers)
        assert program.ask(opened).status == 404


def listen(line: RawConnection, token: str, *uris: str) -> None:
    asked = {"notifications": {"resourceSubscriptions": uris}}
    opened = line.ask(modern("subscriptions/listen", asked, authorization=bearer(token)))
    assert opened.status == 200
    acknowledged = line.event().json["params"]["notifications"]["resourceSubscriptions"]
    assert acknowledged == [*uris]


def updated(line: RawConnection) -> str:
    return line.event().json["params"]["uri"]


@pytest.mark.guarantee("rows-are-the-callers")
def test_a_change_is_told_to_those_whose_row_it_is(tmp_path: Path) -> None:
    with serving(tmp_path) as program, program.line() as alice, program.line() as bob:
        listen(alice, ALICE, ROWS)
        listen(bob, BOB, ROWS)
        write(program, "update orders set note = 'changed' where owner = 'bob'")
        assert updated(bob) == ROWS
        write(program, "insert into orders values (99, 'alice', 'new')")
        # The first notification of any kind: none came for the change before.
        assert updated(alice) == ROWS
        write(program, "update orders set note = 'again' where id = 1")
        assert updated(bob) == ROWS


@pytest.mark.guarantee("rows-are-the-callers")
def test_subscriptions_are_told_apart_when_a_reloaded_manifest_uses_a_claim(tmp_path: Path) -> None:
    every = serving(tmp_path, "title: Orders")
    with every as program, program.line() as alice, program.line() as bob:
        listen(alice, ALICE, ROWS)
        listen(bob, BOB, ROWS)
        for where in ("where: 'owner = :claims.sub'", "where: 'owner = :claims.login'"):
            (tmp_path / "mcp-resources.yaml").write_text(manifest(where))
            assert updated(alice) == updated(bob) == ROWS  # other rows than before
            program.until(lambda: rows(program, ALICE) == [0, 3, 6, 9])
            write(program, "update orders set note = note || 'x' where owner = 'bob'")
            assert updated(bob) == ROWS
            write(program, "update orders set note = note || 'x' where owner = 'alice'")
            assert updated(alice) == ROWS


def test_a_stream_ends_for_a_token_with_another_value(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        begun = program.ask(request("POST", initialize("2025-11-25"), authorization=bearer(ALICE)))
        session = Session(program, begun.headers["mcp-session-id"], "2025-11-25")
        subscribed = session.post(
            message("resources/subscribe", {"uri": ROWS}), authorization=bearer(ALICE)
        )
        assert "result" in subscribed.json
        refused = program.ask(
            request("GET", authorization=bearer(ALICE_AS_BOB), mcp_session_id=session.id)
        )
        assert refused.status == 404
