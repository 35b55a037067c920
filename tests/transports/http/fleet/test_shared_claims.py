"""Rows by claims at every server of a fleet: what each token is shown and told."""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE
from tests.transports.http.app import test_http_claims as claims
from tests.transports.http.app.test_http_claims import (
    ALICE,
    ALICE_AS_BOB,
    BOB,
    ORDERS,
    ROWS,
    bearer,
    listen,
)
from tests.transports.http.fleet.fleets import Redis, at, fleet
from tests.transports.program import (
    Program,
    RawConnection,
    Session,
    initialize,
    message,
    request,
)

OWN = {ALICE: [0, 3, 6, 9], BOB: [1, 2, 4, 5, 7, 8, 10, 11]}
OWN[ALICE_AS_BOB] = OWN[BOB]
MARKS = "sqlite://shop/marks/~rows"
"""Rows that all see: a notification of them comes after those of earlier changes."""
_TOKENS = ", ".join(
    f"{{token: {token}, subject: {subject}, claims: {{sub: {sub}}}}}"
    for token, subject, sub in (
        (ALICE, "alice", "alice"),
        (ALICE_AS_BOB, "alice", "bob"),
        (BOB, "bob", "bob"),
    )
)
_DATABASE = "{url: 'sqlite:///shop.db', tables: {orders: {where: 'owner = :claims.sub'}}}"


@pytest.fixture
def servers(store: Redis, tmp_path: Path) -> Generator[Sequence[Program]]:
    claims.make_database(tmp_path)
    http = f", auth: {{tokens: [{_TOKENS}]}}"
    with fleet(tmp_path, store, more=f"databases: {{shop: {_DATABASE}}}\n", http=http) as programs:
        yield programs


def begun(program: Program, token: str, revision: str = "2025-11-25") -> Session:
    answered = program.ask(request("POST", initialize(revision), authorization=bearer(token)))
    return Session(program, answered.headers["mcp-session-id"], revision)


def subscribe(session: Session, token: str) -> None:
    for uri in (ROWS, MARKS):
        asked = message("resources/subscribe", {"uri": uri})
        assert session.post(asked, authorization=bearer(token)).json["result"] == {}


@contextmanager
def told(session: Session, token: str) -> Generator[RawConnection]:
    """Open the stream of a session that is subscribed, and take what it begins with."""
    with session.stream(authorization=bearer(token)) as stream:
        seen = set[str]()
        while seen < {ROWS, MARKS}:
            seen |= updated(stream)
        yield stream


def updated(stream: RawConnection) -> set[str]:
    """Return the URI of the next notification, if it is of a resource."""
    said = stream.event().json
    return {said["params"]["uri"]} if said["method"] == "notifications/resources/updated" else set()


def change(
    program: Program, owner: str, those: Sequence[RawConnection], others: Sequence[RawConnection]
) -> None:
    """Change rows of an owner: those streams are told of them, and the others are not."""
    claims.write(program, f"update orders set note = note || 'x' where owner = '{owner}'")  # noqa: S608
    for stream in those:
        while ROWS not in updated(stream):
            pass
    claims.write(program, "insert into marks values (null)")
    for stream in (*those, *others):
        while MARKS not in (seen := updated(stream)):
            assert stream in those or not seen


@pytest.mark.guarantee("rows-are-the-callers")
def test_every_server_shows_and_counts_the_rows_of_the_caller(servers: Sequence[Program]) -> None:
    here, there = servers
    for token, program in itertools.product(OWN, servers):
        assert claims.rows(program, token) == OWN[token]
        counted = claims.ask(program, token, "resources/read", uri=f"{ROWS}?count")["result"]
        assert f'"count":{len(OWN[token])}' in counted["contents"][0]["text"]
        session = begun(here if program is there else there, token)
        for number in range(12):
            asked = message("resources/read", {"uri": f"{ORDERS}/{number}"})
            answered = at(program, session).post(asked, authorization=bearer(token)).json
            assert ("result" in answered) is (number in OWN[token])


@for_each("revision", HANDSHAKE)
@pytest.mark.guarantee("rows-are-the-callers")
def test_the_stream_at_another_server_tells_each_caller_of_its_rows(
    servers: Sequence[Program], revision: str
) -> None:
    here, there = servers
    with ExitStack() as stack:
        streams: dict[str, list[RawConnection]] = {ALICE: [], BOB: []}
        for token, (begins, other) in itertools.product(streams, ((here, there), (there, here))):
            session = begun(begins, token, revision)
            subscribe(session, token)
            streams[token].append(stack.enter_context(told(at(other, session), token)))
        for token in (BOB, ALICE, BOB):
            (others,) = (those for each, those in streams.items() if each != token)
            change(here, token.partition("-")[0], streams[token], others)


@pytest.mark.guarantee("rows-are-the-callers")
def test_a_token_with_another_claim_is_told_of_its_rows_alone(servers: Sequence[Program]) -> None:
    here, there = servers
    before = begun(here, ALICE)
    subscribe(before, ALICE)
    with told(at(there, before), ALICE) as old:
        for program in servers:
            renewed = at(program, before)
            for again in (
                renewed.request("GET", authorization=bearer(ALICE_AS_BOB)),
                renewed.request("POST", message("ping"), authorization=bearer(ALICE_AS_BOB)),
            ):
                assert program.ask(again).status == 404
        elsewhere = at(there, begun(here, ALICE))
        pinged = elsewhere.post(message("ping"), authorization=bearer(ALICE_AS_BOB))
        assert pinged.status == 404
        after = begun(there, ALICE_AS_BOB)
        subscribe(after, ALICE_AS_BOB)
        with told(at(here, after), ALICE_AS_BOB) as new, there.line() as line:
            listen(line, ALICE_AS_BOB, ROWS, MARKS)
            for owner, those, others in (
                ("bob", [new, line], [old]),
                ("alice", [old], [new, line]),
            ):
                change(here, owner, those, others)
            # A row that changes its owner is news to both.
            claims.write(here, "update orders set owner = 'bob' where id = 0")
            for stream in (old, new, line):
                while ROWS not in updated(stream):
                    pass
        found = claims.ask(here, ALICE_AS_BOB, "resources/read", uri=ROWS)["result"]
        assert 0 in [row["id"] for row in json.loads(found["contents"][0]["text"])["rows"]]
