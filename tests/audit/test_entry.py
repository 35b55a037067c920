from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from resource_server.audit.entry import AuditClient, bounded, encoded_line, moment
from tests.audit.records import entry
from tests.cases import for_each


@given(st.text(max_size=200))
def test_a_line_is_one_line_of_printable_ascii_that_reads_as_the_text(text: str) -> None:
    text = bounded(text, 1000)
    line = encoded_line(entry(1, subject=text, client=AuditClient(text, text), uri=text))
    assert line.isascii()
    assert line.decode().isprintable()
    found = json.loads(line)
    assert found["uri"] == found["subject"] == found["client"]["name"] == text


@for_each(
    "text",
    ["two\nlines", "\x1b[31mred", "\x7f", "\u2028", "\u202ereversed", "\U0001f600", "\ud800 lone"],
)
def test_what_a_terminal_may_obey_is_escaped(text: str) -> None:
    line = encoded_line(entry(1, uri=bounded(text, 100)))
    assert b"\n" not in line
    assert b"\x1b" not in line
    assert line.decode().isprintable()
    assert line.isascii()


def test_a_megabyte_of_a_client_is_shortened_and_says_so() -> None:
    found = bounded("x" * 1_000_000, 100)
    assert len(found) < 130
    assert found.endswith("(1000000 characters)")


def test_a_member_without_a_value_is_left_out() -> None:
    assert b"subject" not in encoded_line(entry(1))
    assert b"uris" not in encoded_line(entry(1))


def test_times_are_utc_with_milliseconds() -> None:
    assert moment(0.0019) == "1970-01-01T00:00:00.001Z"
