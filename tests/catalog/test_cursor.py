from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.catalog.cursor import ListCursor, pack, unpack
from resource_server.errors import InvalidParameter
from tests.cases import for_each

SEGMENTS = st.text(st.characters(exclude_characters="/\0"), min_size=1).filter(
    lambda segment: segment not in (".", "..")
) | st.binary(min_size=1).map(
    # As `os.fsdecode` gives the names of files.
    lambda data: data.replace(b"/", b"_").replace(b"\0", b"_").decode("utf-8", "surrogateescape")
).filter(lambda segment: segment not in (".", ".."))
SCOPES = st.text() | st.just("file:///project/a")


def encodable(path: tuple[str, ...]) -> bool:
    try:
        for segment in path:
            segment.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


PATHS = st.lists(SEGMENTS, max_size=5).map(tuple).filter(encodable)


@given(scope=SCOPES, mount=st.text(st.characters(codec="utf-8")), path=PATHS)
def test_a_cursor_round_trips(scope: str, mount: str, path: tuple[str, ...]) -> None:
    text = ListCursor(scope, mount, path).encode()
    assert text
    assert text.isascii()
    assert ListCursor.decode(text, scope=scope) == ListCursor(scope, mount, path)


@given(scope=SCOPES, other=SCOPES, path=PATHS)
def test_a_cursor_of_another_listing_is_refused(
    scope: str, other: str, path: tuple[str, ...]
) -> None:
    if scope != other:
        with pytest.raises(InvalidParameter):
            ListCursor.decode(ListCursor(scope, "m", path).encode(), scope=other)


@given(text=st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        ListCursor.decode(text, scope="")


@given(wire=st.lists(st.integers() | st.binary() | st.text(st.characters(codec="utf-8"))))
def test_a_cursor_of_another_shape_is_refused(wire: list[Any]) -> None:
    try:
        packed = msgspec.msgpack.encode(wire)
    except OverflowError:
        return
    with pytest.raises(InvalidParameter):
        ListCursor.decode(base64.urlsafe_b64encode(packed).decode(), scope="")


def forged(path: list[bytes], version: int = 2) -> str:
    """Return a cursor of the listing `""` as anybody can make one."""
    honest = ListCursor("", "m", ()).encode()
    wire: list[Any] = msgspec.msgpack.decode(base64.urlsafe_b64decode(honest + "=="))
    wire[0], wire[3] = version, path
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(wire)).decode()


@for_each("segment", [b"", b".", b"..", b"a/b", b"/", b"\0", b"a\0"])
def test_a_forged_path_that_no_uri_can_have_is_refused(segment: bytes) -> None:
    assert ListCursor.decode(forged([b"a", b"...", b".a"]), scope="").path == ("a", "...", ".a")
    with pytest.raises(InvalidParameter):
        ListCursor.decode(forged([b"a", segment]), scope="")


@for_each("version", [0, 1, 3, -1])
def test_a_cursor_of_another_version_is_refused(version: int) -> None:
    with pytest.raises(InvalidParameter):
        ListCursor.decode(forged([], version), scope="")


def test_an_endless_cursor_is_refused() -> None:
    assert ListCursor.decode(forged([b"a" * 20_000]), scope="")
    with pytest.raises(InvalidParameter):
        ListCursor.decode(forged([b"a" * 40_000]), scope="")


def test_a_refused_cursor_is_reported_with_the_remedy() -> None:
    with pytest.raises(InvalidParameter, match="begin again without a cursor"):
        ListCursor.decode("x", scope="")


class State(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    number: int
    place: bytes | None


@given(scope=SCOPES, number=st.integers(0, 2**63), place=st.none() | st.binary())
def test_a_state_round_trips(scope: str, number: int, place: bytes | None) -> None:
    text = pack(State(number, place), scope=scope)
    assert text.isascii()
    assert unpack(text, State, scope=scope) == State(number, place)


@given(scope=SCOPES, other=SCOPES)
def test_a_state_of_another_scope_or_shape_is_refused(scope: str, other: str) -> None:
    text = pack(State(1, b""), scope=scope)
    if scope != other:
        with pytest.raises(InvalidParameter):
            unpack(text, State, scope=other)
    with pytest.raises(InvalidParameter):
        unpack(text, ListCursor, scope=scope)
    with pytest.raises(InvalidParameter):
        ListCursor.decode(text, scope=scope)


@given(text=st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_a_malformed_state_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        unpack(text, State, scope="")


@for_each("state", [[-1, False, False, []], [1, 2, False, []], [0] * 9, 5])
def test_a_forged_state_that_no_listing_can_have_is_refused(state: object) -> None:
    wire: list[Any] = msgspec.msgpack.decode(
        base64.urlsafe_b64decode(ListCursor("", "m", ()).encode() + "==")
    )
    wire[4] = state
    packed = base64.urlsafe_b64encode(msgspec.msgpack.encode(wire)).decode()
    with pytest.raises(InvalidParameter):
        ListCursor.decode(packed, scope="")
