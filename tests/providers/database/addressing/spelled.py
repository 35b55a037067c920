"""Values and segments that are hard to spell in a URI."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from hypothesis import strategies as st
from pydantic import AnyUrl

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing.key_types import KeyType

BASE = "sqlite://shop/"

# Text from a driver: Unicode, with lone surrogates for bytes that are not UTF-8.
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")),
    st.text("ab5.-+~%/?#&=_:T\0\n\\ éÉ\u0301\u202e\U0001f600\udcff", max_size=8),
    st.from_regex(r"~?[nirtb]?[0-9.~/]{0,4}", fullmatch=True),
    st.sampled_from(
        (
            *("", ".", "..", "...", "~", "~schema", "~rows", "~cell", "~query", "~n", "~i5", "~t"),
            *("5", "5.0", "-0", "1e5", "inf", "NaN", "true", "%2F", "%2e%2e", "a/b", "\0", "+"),
            *("2026-11-20", "2026-11-20T10:00:00", "2026-11-20T10:00:00Z", "2026-11-20 10:00:00"),
            *("10:00:00", "25:00:00", "550e8400-e29b-41d4-a716-446655440000", "0000-00-00"),
        )
    ),
    st.dates().map(str),
    st.datetimes().map(str),
    st.uuids().map(str),
)

NO_SEGMENTS = (
    *("", ".", "..", "a/b", "\0", "~", "~x", "~n", "~nn", "~i", "~i5.0", "~schema", "~rows"),
    *("~r1e999999", "~r0x1", "~N", "~bA", "~b+/", "~bAP8=", "~b\n", "~ta~", "~t~2", "~t~GG"),
    *("~ta~~", "\ud800", "\udcc3\udca9", "~t\ud800", "~i" + "9" * 16_000, "a" * 20_000),
)
"""Segments that no key type can read."""


def survives(segment: str) -> None:
    """Assert that URIs and URL libraries keep a segment."""
    uri = uris.join(BASE, ("t", segment, "~cell", "c"))
    assert uris.parse(uri).path == ("t", segment, "~cell", "c")
    assert str(AnyUrl(uri)) == uri


def assert_round_trip(type: KeyType, value: object) -> None:
    """Assert that a value has one spelling, which gives the value again."""
    segment = type.encode(value)
    survives(segment)
    again = type.decode(segment)
    assert again == value or (again != again and value != value)  # noqa: PLR0124 - NaN
    assert again.__class__ is value.__class__
    assert type.encode(again) == segment
    assert type.order(again) == type.order(value)


def assert_canonical(type: KeyType, segment: str) -> None:
    """Assert that a segment has a value with a canonical spelling, or is not found."""
    try:
        value = type.decode(segment)
    except ResourceNotFound:
        return
    canonical = type.encode(value)
    assert type.encode(type.decode(canonical)) == canonical
    type.bind(value)
    type.order(value)
    survives(canonical)


def assert_not_found(type: KeyType, segments: Iterable[str]) -> None:
    """Assert that none of these segments is a value."""
    read: list[str] = []
    for segment in segments:
        with suppress(ResourceNotFound):
            type.decode(segment)
            read.append(segment)
    assert not read
