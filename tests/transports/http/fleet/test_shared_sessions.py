"""Sessions that any server of a fleet answers: requests, subscriptions, ends, responses."""

from __future__ import annotations

import itertools
import signal
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from resource_server.protocol.client_connection import LISTS
from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE
from tests.transports.http.app.test_http_elicitation import PERSON, answer, asked, opened, words
from tests.transports.http.fleet.fleets import (
    Redis,
    at,
    fleet,
    redis_server,
    server,
    stalling,
    switching,
)
from tests.transports.program import (
    GATE,
    GATES,
    OPEN,
    Program,
    RawConnection,
    Session,
    initialize,
    message,
    read,
    request,
)
from tests.waiting import PATIENCE_S, block_until

TOKEN = "annas-token-of-letters"  # noqa: S105
A, B = "file:///project/a.md", "file:///project/b.md"


@pytest.fixture
def servers(store: Redis, tmp_path: Path) -> Generator[Sequence[Program]]:
    for name in "ab":
        write(tmp_path, name, "one")
    with fleet(tmp_path, store) as programs:
        yield programs


def write(place: Path, name: str, text: str) -> None:
    (place / "project").mkdir(exist_ok=True)
    (place / "project" / f"{name}.md").write_text(text)


def subscribe(session: Session, *uris: str, method: str = "subscribe") -> None:
    for uri in uris:
        answered = session.post(message(f"resources/{method}", {"uri": uri}))
        assert answered.json.get("result") == {}, (answered, session.program.errors)


def updated(stream: RawConnection, *uris: str) -> str:
    """Wait for the notifications of these URIs; return the id of the last event."""
    wanted = set(uris)
    event_id = stream.primer.id or ""
    while wanted:
        event = stream.event()
        event_id = event.id or event_id
        if event.json["method"] == "notifications/resources/updated":
            wanted.discard(event.json["params"]["uri"])
    return event_id


def has_ended(stream: RawConnection) -> bool:
    """Wait for the end of a stream."""
    try:
        while True:
            stream.event()
    except (EOFError, ConnectionResetError):
        return True


def next_updates(stream: RawConnection, last: str) -> set[str]:
    """Return the URIs of all notifications up to the one of `last`."""
    seen = set[str]()
    while last not in seen:
        event = stream.event()
        if event.data and event.json["method"] == "notifications/resources/updated":
            seen.add(event.json["params"]["uri"])
    return seen


@for_each("revision", HANDSHAKE)
def test_a_subscription_reaches_the_stream_at_another_server(
    servers: Sequence[Program], tmp_path: Path, revision: str
) -> None:
    here, there = servers
    session = here.session(revision)
    with at(there, session).stream() as stream:
        subscribe(session, A)
        updated(stream, A)  # what the client has read is unknown at that server
        write(tmp_path, "a", f"two, {revision}")
        updated(stream, A)


def test_a_server_does_not_read_from_the_store_what_it_has_recorded(
    store: Redis, tmp_path: Path
) -> None:
    write(tmp_path, "a", "one")
    rare = {"fleet_sync_s": PATIENCE_S}
    with fleet(tmp_path, store, timing=rare) as (here, there):
        session = here.session()
        with session.stream() as stream:
            store.ask("CONFIG", "RESETSTAT")
            subscribe(session, A)
            write(tmp_path, "a", "two")
            updated(stream, A)
            subscribe(at(there, session), A)
            updated(stream, A)  # by the message of the other server
            assert store.ask("INFO", "commandstats")["cmdstat_smembers"]["calls"] == 2


def test_a_subscription_ends_at_every_server(servers: Sequence[Program], tmp_path: Path) -> None:
    here, there = servers
    session = here.session()
    with at(there, session).stream() as stream:
        subscribe(session, A, B)
        updated(stream, A, B)
        subscribe(session, A, method="unsubscribe")
        texts = map(str, itertools.count())

        def is_quiet() -> bool:
            text = next(texts)
            write(tmp_path, "a", text)
            write(tmp_path, "b", text)
            return next_updates(stream, B) == {B}

        # The server with the stream learns of it a moment later.
        block_until(is_quiet)


def test_a_session_that_its_client_ends_ends_everywhere(servers: Sequence[Program]) -> None:
    here, there = servers
    session = here.session()
    with at(there, session).stream() as stream:
        assert here.ask(session.request("DELETE")).status == 204
        assert stream.events() is not None
    for program in servers:
        block_until(lambda: at(program, session).post(read(A)).status == 404)  # noqa: B023


def test_a_stream_continues_at_another_server_with_what_was_missed(
    servers: Sequence[Program], tmp_path: Path
) -> None:
    here, there = servers
    session = here.session()
    with session.stream() as stream:
        subscribe(session, A, B)
        last = updated(stream, A, B)
        block_until(lambda: session.post(read(A)).status == 200)
        write(tmp_path, "a", "two")
        last = updated(stream, A)
    write(tmp_path, "b", "two")
    with at(there, session).stream(last_event_id=last) as stream:
        assert B in next_updates(stream, B)
        write(tmp_path, "a", "three")
        updated(stream, A)


@for_each("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_client_misses_nothing_when_its_server_ends(
    store: Redis, tmp_path: Path, number: signal.Signals
) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    with fleet(tmp_path, store) as (here, there):
        session = here.session()
        with session.stream() as stream:
            subscribe(session, A, B)
            last = updated(stream, A, B)
            here.end(number)
            write(tmp_path, "a", "two")
        with at(there, session).stream(last_event_id=last) as stream:
            updated(stream, A)
            write(tmp_path, "b", "two")
            updated(stream, B)


def test_a_resource_that_vanished_meanwhile_is_notified_once(
    servers: Sequence[Program], tmp_path: Path
) -> None:
    here, there = servers
    session = here.session()
    with session.stream() as stream:
        subscribe(session, A, B)
        last = updated(stream, A, B)
    (tmp_path / "project" / "a.md").unlink()
    with at(there, session).stream(last_event_id=last) as stream:
        updated(stream, A)
        write(tmp_path, "a", "again")
        updated(stream, A)


def test_a_stream_that_comes_while_subscriptions_are_taken_misses_nothing_that_is_gone(
    store: Redis, tmp_path: Path
) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    gates = f'providers: {{gates: {{use: {GATES}, uri: "test://gates/"}}}}\n'
    rare = {"fleet_sync_s": PATIENCE_S}
    with fleet(tmp_path, store, more=gates, timing=rare) as (here, there):
        here.read(f"{OPEN}slow")
        there.session()
        block_until(lambda: store.ask("PUBSUB", "CHANNELS", "*:to:*"))  # it listens
        session = here.session()
        subscribe(session, A, B)
        (tmp_path / "project" / "a.md").unlink()
        with at(there, session).stream() as dead, there.line() as line:
            updated(dead, A, B)
            subscribe(session, f"{GATE}slow?part=1")
            there.waiting("slow")  # to take this subscription, after what became of the other
            line.send(session.request("GET"))
            there.has_read(line)
            there.read(f"{OPEN}slow")
            assert line.answer().status == 200
            seen = next_updates(line, B)
            write(tmp_path, "b", "two")
            assert A in seen | next_updates(line, B)


def test_a_response_reaches_the_server_that_asked(store: Redis, tmp_path: Path) -> None:
    person = f'providers: {{person: {{use: {PERSON}, uri: "test://person/"}}}}\n'
    with fleet(tmp_path, store, more=person) as (here, there):
        session = opened(here)
        for asking, answering in ((here, there), (there, here)):
            with asked(at(asking, session)) as (line, question):
                assert at(answering, session).post(answer(question)).status == 202
                assert words(line) == "Ada"


# -- a store that fails


def test_requests_go_on_without_the_store_and_subscriptions_return_with_it(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    with redis_server(tmp_path) as store, fleet(tmp_path, store) as (here, there):
        session = here.session()
        with session.stream() as stream:
            subscribe(session, A)
            store.stop()
            assert session.post(read(A)).status == 200
            assert at(there, session).post(read(A)).status == 200
            refused = session.post(message("resources/subscribe", {"uri": B})).json["error"]
            assert (refused["data"]["retryable"], "try again" in refused["message"]) == (True, True)
            write(tmp_path, "a", "two")
            updated(stream, A)
            store.start()  # empty
            block_until(lambda: told_again(at(there, session)))
            write(tmp_path, "a", "three")
            write(tmp_path, "b", "two")
            updated(stream, A, B)
        assert any("does not answer" in line for line in here.errors)


def told_again(session: Session) -> bool:
    """Subscribe to another document; return whether that has succeeded."""
    return "result" in session.post(message("resources/subscribe", {"uri": B})).json


def test_a_store_that_hangs_changes_no_subscription(tmp_path: Path) -> None:
    write(tmp_path, "a", "one")
    times = {"fleet_call_s": 0.3}
    with (
        redis_server(tmp_path) as store,
        fleet(tmp_path, store, count=1, timing=times) as (here,),
        (session := here.session()).stream() as stream,
    ):
        subscribe(session, A)
        assert store.process is not None
        store.process.send_signal(signal.SIGSTOP)
        try:
            for method in ("unsubscribe", "subscribe"):
                refused = session.post(message(f"resources/{method}", {"uri": A}))
                assert refused.json["error"]["data"]["retryable"] is True
            assert session.post(read(A)).status == 200
        finally:
            store.process.send_signal(signal.SIGCONT)
        for text in ("two", "three"):
            write(tmp_path, "a", text)
            updated(stream, A)


@for_each(
    "refusing",
    [
        # Full, and a replica that takes no writes.
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    ],
)
def test_a_store_that_takes_no_writes_changes_no_subscription(
    tmp_path: Path, refusing: tuple[str, str]
) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    refuse, admit = refusing
    with (
        redis_server(tmp_path) as store,
        fleet(tmp_path, store, count=1) as (here,),
        (session := here.session()).stream() as stream,
    ):
        subscribe(session, A)
        store.ask(*refuse.split())
        refused = session.post(message("resources/subscribe", {"uri": B})).json["error"]
        assert refused["data"]["retryable"] is True
        write(tmp_path, "a", "two")
        updated(stream, A)
        store.ask(*admit.split())
        block_until(lambda: told_again(session))
        write(tmp_path, "b", "two")
        updated(stream, B)


def test_subscriptions_that_the_store_lost_stay_with_the_stream(
    servers: Sequence[Program], store: Redis, tmp_path: Path
) -> None:
    here, there = servers
    session = here.session()
    with at(there, session).stream() as stream:
        subscribe(session, A)
        updated(stream, A)
        store.ask("FLUSHALL")
        session.post(read(A))
        subscribe(session, B)
        updated(stream, B)
        write(tmp_path, "a", "two")
        updated(stream, A)


def test_a_stream_that_returns_to_a_server_misses_nothing(
    servers: Sequence[Program], tmp_path: Path
) -> None:
    here, there = servers
    session = here.session()
    with session.stream() as dead:
        subscribe(session, A)
        updated(dead, A)
        with at(there, session).stream() as stream:
            last = updated(stream, A)
        write(tmp_path, "a", "two")
        updated(dead, A)  # sent to a client that does not read it any more
        with session.stream(last_event_id=last) as stream:
            updated(stream, A)


def test_a_stream_begins_with_the_lists(servers: Sequence[Program]) -> None:
    here, there = servers
    for program in (here, there):
        session = here.session()
        with at(program, session).stream() as stream:
            methods = {stream.event().json["method"] for _ in range(3)}
        assert methods == {f"notifications/{name}/list_changed" for name in LISTS}


def test_a_session_that_was_ended_without_the_store_ends_with_it(tmp_path: Path) -> None:
    write(tmp_path, "a", "one")
    with redis_server(tmp_path) as store, fleet(tmp_path, store) as (here, there):
        session = here.session()
        assert at(there, session).post(read(A)).status == 200
        store.stop()
        assert here.ask(session.request("DELETE")).status == 204
        store.start()
        block_until(lambda: at(there, session).post(read(A)).status == 404)
        store.stop()
        assert at(there, session).post(read(A)).status == 404


def test_a_session_is_worth_nothing_to_a_token_that_sees_less(store: Redis, tmp_path: Path) -> None:
    write(tmp_path, "a", "one")
    tokens = "{token: one-token-of-letters, subject: a, scopes: [hr]}, "
    tokens += "{token: two-token-of-letters, subject: a, scopes: [other]}"
    http = f", auth: {{tokens: [{tokens}]}}"
    with fleet(tmp_path, store, access="{scopes: [hr]}", http=http) as (here, there):
        one, two = ({"authorization": f"Bearer {name}-token-of-letters"} for name in ("one", "two"))
        begun = here.ask(request("POST", initialize("2025-11-25"), **one))
        session = Session(there, begun.headers["mcp-session-id"], "2025-11-25")
        assert session.post(read(A), **two).status == 404
        assert session.post(read(A), **one).status == 200


def test_a_stream_whose_subscriptions_are_lost_is_404(
    servers: Sequence[Program], store: Redis
) -> None:
    here, there = servers
    session = here.session()
    subscribe(session, A)
    store.ask("FLUSHALL")
    assert there.ask(at(there, session).request("GET")).status == 404
    assert at(there, session).post(read(A)).status == 200


def test_a_stream_opened_without_the_store_ends_if_its_subscriptions_are_lost(
    tmp_path: Path,
) -> None:
    write(tmp_path, "a", "one")
    with redis_server(tmp_path) as store, fleet(tmp_path, store) as (here, there):
        session = here.session()
        subscribe(session, A)
        store.stop()
        with at(there, session).stream() as stream:
            store.start()  # empty
            assert has_ended(stream)
        assert there.ask(at(there, session).request("GET")).status == 404


def test_a_subscription_that_the_store_lost_at_once_comes_back_from_its_server(
    servers: Sequence[Program], store: Redis, tmp_path: Path
) -> None:
    here, there = servers
    session = here.session()
    with at(there, session).stream() as stream:
        subscribe(session, A)
        updated(stream, A)
        there.process.send_signal(signal.SIGSTOP)
        try:
            subscribe(session, B)
            store.ask("FLUSHALL")
        finally:
            there.process.send_signal(signal.SIGCONT)
        updated(stream, B)
        write(tmp_path, "b", "two")
        updated(stream, B)


def test_a_subscription_to_what_is_missing_survives_a_loss_of_the_store(
    store: Redis, tmp_path: Path
) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    with fleet(tmp_path, store) as (here, there):
        session = here.session()
        subscribe(session, A, B)
        (tmp_path / "project" / "b.md").unlink()
        with at(there, session).stream() as stream:
            updated(stream, A, B)
            here.end(signal.SIGKILL)
            store.ask("FLUSHALL")
            block_until(lambda: any(name.endswith(":uris") for name in store.names()))
            write(tmp_path, "a", "two")
            updated(stream, A)
            write(tmp_path, "b", "two")
            updated(stream, B)


def test_a_failover_that_loses_what_was_acknowledged_loses_no_subscription_of_a_stream(
    store: Redis, tmp_path: Path
) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    (tmp_path / "replica").mkdir()
    with redis_server(tmp_path / "replica") as replica, switching(store) as (url, switch):
        store.ask("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        replica.ask("REPLICAOF", "127.0.0.1", str(store.port))
        block_until(lambda: replica.ask("INFO", "replication")["master_link_status"] == "up")
        with fleet(tmp_path, store, url=url) as (here, there):
            session = here.session()
            with at(there, session).stream() as stream:
                subscribe(session, A)
                updated(stream, A)
                block_until(lambda: sorted(replica.names()) == sorted(store.names()))
                replica.ask("REPLICAOF", "NO", "ONE")  # it is cut off, and what follows is lost
                subscribe(session, B)
                updated(stream, B)
                switch(replica)
                for name, uri in zip("ab", (A, B), strict=True):
                    write(tmp_path, name, "two")
                    updated(stream, uri)
                assert session.post(read(A)).status == 200


def test_an_unsubscription_that_arrives_late_ends_no_later_subscription(
    store: Redis, tmp_path: Path
) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    with (
        stalling(store) as (url, stall),
        server(tmp_path, url, timing={"fleet_call_s": 0.5}) as here,
        server(tmp_path, store.url) as there,
    ):
        session = there.session()
        with session.stream() as stream:
            subscribe(session, A)
            assert at(here, session).post(read(A)).status == 200
            stall(True)
            refused = at(here, session).post(message("resources/unsubscribe", {"uri": A}))
            assert refused.json["error"]["data"]["retryable"] is True
            subscribe(session, A)
            stall(False)
            block_until(lambda: told_again(at(here, session)))
            updated(stream, B)
            write(tmp_path, "a", "two")
            updated(stream, A)


def test_a_session_that_began_without_the_store_has_its_stream_anywhere(tmp_path: Path) -> None:
    write(tmp_path, "a", "one")
    with redis_server(tmp_path) as store, fleet(tmp_path, store) as (here, there):
        write(tmp_path, "b", "one")
        store.stop()
        session = here.session()
        store.start()
        block_until(lambda: told_again(session))
        block_until(lambda: there.ask(at(there, session).request("GET")).status == 200)
        with at(there, session).stream() as stream:
            updated(stream, B)


@for_each("home", [True, False])
def test_a_session_that_began_without_the_store_is_recorded_before_anything_of_it(
    tmp_path: Path, *, home: bool
) -> None:
    for name in "ab":
        write(tmp_path, name, "one")
    rare = {"fleet_save_s": PATIENCE_S}
    with redis_server(tmp_path) as store, fleet(tmp_path, store, timing=rare) as (here, there):
        store.stop()
        session = here.session()
        store.start()
        if home:
            other = here.session()
            block_until(lambda: told_again(other))
        else:
            block_until(lambda: told_again(session))
        asked = session if home else at(there, session)
        assert asked.program.ask(asked.request("GET")).status == 200
        with asked.stream() as stream:
            subscribe(session, A)
            updated(stream, A)


def test_a_session_whose_beginning_is_lost_with_its_server_is_read_and_has_no_stream(
    store: Redis, tmp_path: Path
) -> None:
    write(tmp_path, "a", "one")
    with (
        stalling(store) as (url, stall),
        server(tmp_path, url, timing={"fleet_call_s": 0.3}) as here,
        server(tmp_path, store.url) as there,
    ):
        stall(True)
        session = here.session()
        here.end(signal.SIGKILL)
        refused = there.ask(at(there, session).request("GET"))
        assert (refused.status, b"begin a new one" in refused.body) == (404, True)
        assert at(there, session).post(read(A)).status == 200


def test_a_value_that_somebody_else_wrote_harms_only_its_session(
    servers: Sequence[Program], store: Redis, tmp_path: Path
) -> None:
    here, there = servers
    harmed = here.session()
    subscribe(harmed, A)
    for key in store.names():
        if key.endswith(":uris"):
            store.ask("SADD", key, b"\xff\x00", "x" * 100_000, "file:///../..", B)
        elif key.endswith("}"):
            store.ask("HSET", key, "level", "shouting", "change", "many")
    with at(there, harmed).stream() as stream:
        updated(stream, A, B)
    for key in store.names():
        store.ask("SET", key, "a text")
    refused = harmed.post(message("resources/subscribe", {"uri": B})).json["error"]
    assert refused["data"]["retryable"] is True
    assert at(there, harmed).post(read(A)).status == 200
    unharmed = here.session()
    with at(there, unharmed).stream() as stream:
        subscribe(unharmed, A)
        updated(stream, A)


def test_a_foreign_message_on_a_channel_is_ignored(
    servers: Sequence[Program], store: Redis
) -> None:
    here, _ = servers
    session = here.session()
    with session.stream() as stream:
        for channel in store.ask("PUBSUB", "CHANNELS", "*"):
            for text in (b"", b"x", b"\xff\x00" * 10_000, b"e30=" * 100):
                store.ask("PUBLISH", channel, text)
        subscribe(session, A)
        updated(stream, A)
    assert any("not one of its fleet" in line for line in here.errors)


def test_the_store_holds_no_contents_tokens_or_arguments(store: Redis, tmp_path: Path) -> None:
    store.ask("FLUSHALL")
    write(tmp_path, "a", "the contents of a document")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as made:
        made.execute("create table orders (id integer primary key, team text)")
    claims = "{team: a-team-in-a-claim, odd: [another-claim]}"
    http = f", auth: {{tokens: [{{token: {TOKEN}, subject: anna, claims: {claims}}}]}}"
    http += ", limits: {rate: 0.1}"
    tables = "tables: {orders: {where: 'team = :claims.team'}}"
    more = f"databases: {{shop: {{url: 'sqlite:///shop.db', {tables}}}}}\n"
    rows = "sqlite://shop/orders/~rows"
    said = {"authorization": f"Bearer {TOKEN}"}
    with server(tmp_path, store.url, http=http, more=more) as program:
        begun = program.ask(request("POST", initialize("2025-11-25"), **said))
        session = Session(program, begun.headers["mcp-session-id"], "2025-11-25")
        find = {"name": "search_resources", "arguments": {"query": "sought"}}
        asked = [message("resources/subscribe", {"uri": each}) for each in (A, rows)]
        asked += [message("tools/call", find), read(A), read(rows)]
        for each in asked:
            assert "result" in session.post(each, **said).json
        block_until(lambda: any(":rate:" in name for name in store.names()))
    commands = {b"set": "SMEMBERS", b"hash": "HGETALL", b"string": "GET"}
    kinds = {name: store.ask("TYPE", name) for name in store.names()}
    kept = [
        repr((name, store.ask(commands[kind], name)))
        for name, kind in kinds.items()
        if kind in commands
    ]
    assert all(store.ask("TTL", name) > 0 for name in kinds)
    assert A in "".join(kept)
    assert rows in "".join(kept)
    hidden = ("contents of", TOKEN, "anna", "sought", "a-team-in", "another-claim", session.id)
    for secret in (*hidden, session.id[:24]):
        assert secret not in "".join(kept)
