"""Signed ids of sessions: which servers continue a session, and what its id is worth."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Generator
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.access import EVERYBODY, Caller, Rights
from resource_server.protocol.revisions import HANDSHAKE as REVISIONS
from resource_server.runtime.server_key import Seal, ServerKey
from resource_server.transports.http.app.session_ids import MAX_AGE_S, SessionIds
from tests.cases import for_each
from tests.protocol.wire import HANDSHAKE
from tests.transports.program import README, Program, Session, message, read, request, running

FLEET = "one secret of every server of this fleet"
KEY = ServerKey(FLEET.encode())
ANNA, EVE = Caller("anna"), Caller("eve")

_HTTP = (
    '{auth: {tokens: [{token: annas-token-of-letters, subject: anna}, "eves-token-of-letters"]}}'
)


@contextlib.contextmanager
def server(place: Path, *, key: str | None = FLEET, http: str = "{}") -> Generator[Program]:
    """Run one server; those with one key are a fleet."""
    (place / "project").mkdir(exist_ok=True)
    (place / "project" / "read me.md").write_text("# Hello\n")
    manifest = place / "mcp-resources.yaml"
    named = "" if key is None else f"server: {{key: {json.dumps(key)}}}\n"
    manifest.write_text(f"{named}roots: {{project: {{path: project}}}}\nhttp: {http}\n")
    with running(manifest) as program:
        yield program


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Program, Program]]:
    """Two servers of one folder and key."""
    place = tmp_path_factory.mktemp("fleet")
    with server(place) as one, server(place) as other:
        yield one, other


def at(program: Program, session: Session) -> Session:
    """Return the session as a client has it whose requests reach another server."""
    return Session(program, session.id, session.revision)


@for_each("revision", HANDSHAKE)
def test_every_server_with_the_key_answers_in_a_session(
    fleet: tuple[Program, Program], revision: str
) -> None:
    here, there = fleet
    session = here.session(revision)
    assert len(session.id) < 300
    for _ in range(2):
        answers = [each.post(read(README)).json for each in (session, at(there, session))]
        assert answers[0]["result"]["contents"][0]["text"] == "# Hello\n"
        assert answers[0] == answers[1]
    wrong = {"2025-06-18", "2025-11-25"} - {revision}
    assert at(there, session).post(read(README), mcp_protocol_version=wrong.pop()).status == 400


def test_what_is_pushed_stays_with_the_server_that_began_the_session(
    fleet: tuple[Program, Program],
) -> None:
    here, there = fleet
    session = here.session()
    subscribe = message("resources/subscribe", {"uri": README})
    refused = at(there, session).post(subscribe)
    assert "begin a new one with initialize to subscribe" in refused.json["error"]["message"]
    assert refused.json["error"]["data"]["retryable"] is False
    streamed = there.ask(at(there, session).request("GET"))
    assert (streamed.status, b"begin a new session" in streamed.body) == (404, True)
    assert session.post(subscribe).json["result"] == {}


def test_a_session_outlives_a_restart(tmp_path: Path) -> None:
    with server(tmp_path) as before:
        session = before.session()
    with server(tmp_path) as after:
        assert at(after, session).post(read(README)).status == 200


def test_an_ended_session_is_not_continued(fleet: tuple[Program, Program]) -> None:
    session = at(fleet[1], fleet[0].session())
    assert session.program.ask(session.request("DELETE")).status == 204
    for method in ("POST", "GET", "DELETE"):
        assert session.program.ask(session.request(method, read(README))).status == 404


@for_each("key", [None, "another secret, of another fleet of servers"])
def test_a_session_is_worth_nothing_at_a_server_with_another_key(
    fleet: tuple[Program, Program], tmp_path: Path, key: str | None
) -> None:
    with server(tmp_path, key=key) as stranger:
        assert at(stranger, fleet[0].session()).post(read(README)).status == 404
        assert at(fleet[0], stranger.session()).post(read(README)).status == 404


def test_a_session_of_one_subject_is_worth_nothing_to_another(tmp_path: Path) -> None:
    anna = {"authorization": "Bearer annas-token-of-letters"}
    eve = {"authorization": "Bearer eves-token-of-letters"}
    with server(tmp_path, http=_HTTP) as here, server(tmp_path, http=_HTTP) as there:
        begun = here.ask(request("POST", _initialize(), **anna))
        session = Session(there, begun.headers["mcp-session-id"], "2025-11-25")
        assert session.post(read(README), **eve).status == 404
        assert session.post(read(README), **anna).status == 200
        assert session.post(read(README), **eve).status == 404
        assert there.ask(session.request("DELETE", **eve)).status == 404
        assert session.post(read(README), **anna).status == 200


@for_each("seconds", [-60, 60])
def test_a_session_continues_at_a_server_whose_clock_differs_by_a_minute(
    fleet: tuple[Program, Program], seconds: int
) -> None:
    id = _sealed(at=time.time() + seconds, caller=_digest(None))
    session = Session(fleet[0], id, "2025-11-25")
    assert session.post(read(README)).status == 200


def test_ids_that_are_long_or_forged_or_of_another_time_or_subject_are_404_over_http(
    fleet: tuple[Program, Program],
) -> None:
    genuine = fleet[0].session().id
    caller = _digest(None)
    wrong = {
        "8 KB": "A" * 8_000,
        "8 KB after it": genuine + "A" * 7_900,
        "cut": genuine[: len(genuine) // 2],
        "of another key": _sealed(ServerKey(b"another secret of a server"), caller=caller),
        "of another subject": _sealed(caller=_digest("anna")),
        "from the future": _sealed(at=time.time() + 3600, caller=caller),
        "too old": _sealed(at=time.time() - MAX_AGE_S - 60, caller=caller),
    }
    for what, id in wrong.items():
        for program in fleet:
            for method in ("POST", "GET", "DELETE"):
                session = Session(program, id, "2025-11-25")
                assert program.ask(session.request(method, read(README))).status == 404, what
    assert at(fleet[1], Session(fleet[0], genuine, "2025-11-25")).post(read(README)).status == 200


def _initialize() -> object:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    return message("initialize", params)


# -- forged


@pytest.fixture(scope="module")
def genuine(fleet: tuple[Program, Program]) -> str:
    return fleet[0].session().id


@given(data=st.data())
def test_a_changed_id_is_worth_nothing(genuine: str, data: st.DataObject) -> None:
    ids = SessionIds(KEY)
    assert ids.opened(genuine, EVERYBODY)
    kept = base64.urlsafe_b64decode(genuine)
    place = data.draw(st.integers(0, len(kept) - 1))
    changed = bytearray(kept)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    for wrong in (bytes(changed), kept[:place], kept + b"x", kept[place + 1 :]):
        assert ids.opened(base64.urlsafe_b64encode(wrong).decode(), EVERYBODY) is None
    for text in (genuine[:-1], genuine + "=", genuine.replace("=", ""), "x" * 8192, ""):
        assert text == genuine or ids.opened(text, EVERYBODY) is None


@given(st.text(max_size=400))
def test_any_other_text_is_no_id(text: str) -> None:
    assert SessionIds(KEY).opened(text, EVERYBODY) is None


def test_an_id_is_valid_for_a_week_and_of_no_later_time() -> None:
    ids = SessionIds(KEY)
    assert ids.opened(_sealed(), ANNA)
    assert ids.opened(_sealed(at=time.time() - MAX_AGE_S + 60), ANNA)
    assert ids.opened(_sealed(at=time.time() + 60), ANNA)
    assert ids.opened(_sealed(at=time.time() - MAX_AGE_S - 60), ANNA) is None
    assert ids.opened(_sealed(at=time.time() + 3600), ANNA) is None
    assert ids.opened(_sealed(), EVE) is None
    assert ids.opened(_sealed(), EVERYBODY) is None


@for_each(
    "changed",
    [{"revision": "2026-07-28"}, {"revision": "x"}, {"capabilities": ["flight"]}, {"at": "x"}],
)
def test_an_id_of_another_version_of_this_server_is_worth_nothing(
    changed: dict[str, object],
) -> None:
    assert SessionIds(KEY).opened(_sealed(**changed), ANNA) is None


def test_an_id_is_of_one_value_of_the_claims_that_decide() -> None:
    assert SessionIds(KEY, lambda _: Rights(None, "{}")).opened(_sealed(), ANNA)
    assert SessionIds(KEY, lambda _: Rights(None, '{"sub":"x"}')).opened(_sealed(), ANNA) is None


def test_an_id_keeps_the_capabilities_of_the_client() -> None:
    opened = SessionIds(KEY).opened(_sealed(capabilities=["sampling"]), ANNA)
    assert opened is not None
    assert (opened.revision, opened.capabilities) == (REVISIONS["2025-11-25"], {"sampling"})


def _digest(subject: str | None) -> bytes:
    """Return the digest of a caller without scopes and claims."""
    return blake2b(msgspec.msgpack.encode((subject, None, "{}")), digest_size=16).digest()


def _sealed(key: ServerKey = KEY, /, **changed: object) -> str:
    """Return an id as a server with this key may have issued it."""
    start: dict[str, object] = {
        "nonce": b"16 random bytes.",
        "at": time.time(),
        "caller": _digest("anna"),
        "revision": "2025-11-25",
        "capabilities": [],
        **changed,
    }
    if isinstance(start["at"], float):
        start["at"] = int(start["at"])
    body = msgspec.msgpack.encode(list(start.values()))
    return Seal(key.derived("session"), tag_bytes=16).sealed(body)
