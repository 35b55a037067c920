"""The state between two rounds of a request: signed, bound to its call, and valid for a while."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.access import Caller, acting
from resource_server.errors import CannotElicit
from resource_server.manifest.load import load
from resource_server.protocol.client_features.request_state import (
    MAX_STATE_CHARACTERS,
    RequestState,
)
from resource_server.protocol.server import Server
from resource_server.runtime.server_key import ServerKey
from resource_server.runtime.timing import Timing
from resource_server.serving import server_builder
from tests.cases import for_each
from tests.person import Person
from tests.protocol.client_features.asking import FORMS, accepted, modern, wired, words
from tests.protocol.wire import Wire, server_of

pytestmark = pytest.mark.anyio

KEY = ServerKey(b"0123456789abcdef0123456789abcdef")
ANSWERS = {"name": msgspec.Raw(b'{"action":"accept"}'), "\u00e4": msgspec.Raw(b"5")}
FOREIGN = "is not one of this server's for this request and caller"
REFUSED = f"Invalid params: requestState {FOREIGN}"
GREET: dict[str, Any] = {"name": "paint", "arguments": {}}


def state_of(
    *,
    key: ServerKey = KEY,
    method: str = "tools/call",
    name: str = "paint",
    subject: str | None = None,
    lifetime_s: float = 60,
    **arguments: object,
) -> RequestState:
    return RequestState(key, (method, name, subject, arguments), lifetime_s)


# -- the seal


@given(answers=st.dictionaries(st.text(), st.text()))
def test_a_state_holds_the_answers(answers: dict[str, str]) -> None:
    raw = {key: msgspec.Raw(msgspec.json.encode(each)) for key, each in answers.items()}
    opened = state_of().opened(state_of().sealed(raw))
    assert {key: msgspec.json.decode(each) for key, each in opened.items()} == answers


@given(data=st.data())
def test_a_changed_state_is_refused(data: st.DataObject) -> None:
    sealed = state_of().sealed(ANSWERS)
    kept = base64.urlsafe_b64decode(sealed)
    place = data.draw(st.integers(0, len(kept) - 1))
    bit = data.draw(st.integers(0, 7))
    changed = bytearray(kept)
    changed[place] ^= 1 << bit
    for wrong in (bytes(changed), kept[:place], kept + kept[place:], kept[place + 1 :]):
        with pytest.raises(ValueError, match="not one of this server's"):
            state_of().opened(base64.urlsafe_b64encode(wrong).decode())
    with pytest.raises(ValueError, match="not one of this server's"):
        state_of().opened(sealed[:place])


@given(st.text(max_size=200))
def test_any_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not one of this server's"):
        state_of().opened(text)


@for_each(
    "other",
    [
        state_of(key=ServerKey(b"another key of thirty-two characters")),
        state_of(method="prompts/get"),
        state_of(name="greet"),
        state_of(subject="eve"),
        state_of(x=2),
        state_of(x=1, y=1),
        state_of(),
    ],
)
def test_a_state_belongs_to_one_call_of_one_caller(other: RequestState) -> None:
    mine = state_of(x=1)
    sealed = mine.sealed(ANSWERS)
    assert mine.opened(sealed)
    with pytest.raises(ValueError, match="not one of this server's"):
        other.opened(sealed)


def test_the_order_of_arguments_is_of_no_matter() -> None:
    sealed = state_of(x=1, y={"a": 1.5, "b": [2**70]}).sealed(ANSWERS)
    assert state_of(y={"b": [2**70], "a": 1.5}, x=1).opened(sealed) == ANSWERS


def test_a_state_expires() -> None:
    with pytest.raises(ValueError, match="has expired; send the request again without it"):
        state_of().opened(state_of(lifetime_s=-0.01).sealed(ANSWERS))


def test_a_state_never_exceeds_its_limit() -> None:
    long = {"x": msgspec.Raw(b'"%b"' % (b"x" * MAX_STATE_CHARACTERS))}
    with pytest.raises(CannotElicit, match="the answers so far are too long"):
        state_of().sealed(long)


def test_a_state_shows_nothing_but_the_answers() -> None:
    sealed = base64.urlsafe_b64decode(state_of(argument="value").sealed(ANSWERS))
    assert json.loads(sealed[40:]) == {"name": {"action": "accept"}, "\u00e4": 5}


# -- on the wire


async def sealed_by(wire: Wire, **params: Any) -> str:
    """Return the state of a call that has its first answer, and now needs the second."""
    given = {**GREET, **params, "inputResponses": {"name": accepted(name="Ada")}}
    return modern(await wire.result("tools/call", given))["requestState"]


def continued(state: str, **params: Any) -> dict[str, Any]:
    answers = {"colour": accepted(colour="blue")}
    return {**GREET, **params, "inputResponses": answers, "requestState": state}


async def test_a_state_is_accepted_again_until_it_expires() -> None:
    wire = await wired("2026-07-28")
    state = await sealed_by(wire)
    for _ in range(2):
        assert words(await wire.call("tools/call", continued(state))) == "Ada in blue"


async def test_a_state_is_refused_when_it_has_expired() -> None:
    wire = await wired("2026-07-28", timing=Timing(elicitation_timeout_s=0.01))
    state = await sealed_by(wire)
    await wire.quiet()
    error = await wire.error("tools/call", continued(state))
    assert error == {
        "code": -32602,
        "message": "Invalid params: requestState has expired; send the request again without it",
    }


@for_each(
    "state",
    [
        "",
        "nonsense!",
        "AAAA",
        base64.urlsafe_b64encode(b'{"name":{"action":"accept","content":{"name":"Eve"}}}').decode(),
        base64.urlsafe_b64encode(b"[]" * 100).decode(),
        base64.urlsafe_b64encode(b"[" * 9000).decode(),
        "\u00e4",
        "A" * (MAX_STATE_CHARACTERS + 4),
    ],
)
async def test_a_foreign_request_state_is_invalid(state: str) -> None:
    wire = await wired("2026-07-28")
    for answers in ({}, {"inputResponses": {"name": accepted(name="Ada")}}):
        params = {"name": "greet", **answers, "requestState": state}
        error = await wire.error("tools/call", params)
        assert (error["code"], error["message"]) == (-32602, REFUSED)


async def test_a_tampered_or_foreign_state_is_refused() -> None:
    wire = await wired("2026-07-28")
    state = await sealed_by(wire)
    other = Wire(await server_of(Person()), "2026-07-28", can=FORMS)
    other.connection.server.key = ServerKey(b"another key of thirty-two characters")
    for asked, params in (
        (wire, continued(f"{state}-TAMPERED")),
        (wire, continued(state[:-4])),
        (wire, continued(state, name="survey")),
        (wire, continued(state, name="think")),
        (other, continued(state)),
    ):
        error = await asked.error("tools/call", params)
        assert (error["code"], error["message"]) == (-32602, REFUSED)
    with acting(Caller("eve", frozenset())):
        assert (await wire.error("tools/call", continued(state)))["message"] == REFUSED
    assert words(await wire.call("tools/call", continued(state))) == "Ada in blue"


async def test_a_caller_continues_with_the_own_state_only() -> None:
    wire = await wired("2026-07-28")
    with acting(Caller("ada", frozenset())):
        state = await sealed_by(wire)
        assert words(await wire.call("tools/call", continued(state))) == "Ada in blue"
    for other in (Caller("eve", frozenset()), Caller()):
        with acting(other):
            assert (await wire.error("tools/call", continued(state)))["message"] == REFUSED


def served(folder: Path, key: str) -> Server:
    """Return the server of a manifest with a key."""
    person = Path(__file__).parents[2] / "person.py"
    file = folder / "mcp-resources.yaml"
    file.write_text(
        f"server: {{key: {key}}}\n"
        f"providers: {{person: {{use: '{person}', uri: 'test://person/'}}}}\n"
    )
    return server_builder.build_server(load(file), allow_plugins=True)


async def test_a_replica_with_the_same_key_continues_a_request(tmp_path: Path) -> None:
    async with (
        served(tmp_path, "k" * 32) as first,
        served(tmp_path, "k" * 32) as replica,
        served(tmp_path, "x" * 32) as stranger,
    ):
        state = await sealed_by(Wire(first, "2026-07-28", can=FORMS))
        same = Wire(replica, "2026-07-28", can=FORMS)
        assert words(await same.call("tools/call", continued(state))) == "Ada in blue"
        other = Wire(stranger, "2026-07-28", can=FORMS)
        assert (await other.error("tools/call", continued(state)))["message"] == REFUSED
