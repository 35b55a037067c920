from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl

from resource_server import uris
from resource_server.errors import ResourceNotFound
from resource_server.providers.database.addressing import segments
from resource_server.providers.database.addressing.segments import (
    decode_bytes,
    decode_text,
    encode_bytes,
)
from tests.cases import for_each
from tests.providers.database.addressing.spelled import survives, texts


@given(texts)
def test_a_text_round_trips_through_its_segment(text: str) -> None:
    segment = uris.encode_text(text)
    assert decode_text(segment) == text
    survives(segment)


@given(texts, texts)
def test_different_texts_have_different_segments(one: str, other: str) -> None:
    assert (uris.encode_text(one) == uris.encode_text(other)) is (one == other)


@given(st.binary())
def test_bytes_round_trip_through_their_segment(data: bytes) -> None:
    segment = encode_bytes(data)
    assert segments.split(segment)[0] == "b"
    assert decode_bytes(segment[2:]) == data
    survives(segment)


@for_each("segment", ["~n", "~i5", "~query", "~", "", ".", "..", "a/b", "~t~", "~tx~2"])
def test_a_segment_that_is_not_text_is_not_found(segment: str) -> None:
    with pytest.raises(ResourceNotFound):
        decode_text(segment)


@for_each("text", ["\ud800", "\udcc3\udca9"])
def test_text_with_surrogates_that_are_no_bytes_has_no_segment(text: str) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        uris.encode_text(text)
    with pytest.raises(ResourceNotFound):
        decode_text(text)


@for_each("text", ["a", "é", "/"])
def test_the_length_of_a_path_is_that_of_its_percent_encoding(text: str) -> None:
    most = segments.MAX_LENGTH // len(uris.quote_segment(text))
    # A slash separates segments, and is not quoted.
    most = segments.MAX_LENGTH if text == "/" else most
    assert segments.fits_uri(text * most)
    assert not segments.fits_uri(text * (most + 1))
    assert str(AnyUrl("sqlite://shop/" + uris.quote_segment("a" * 9))).endswith("a" * 9)
