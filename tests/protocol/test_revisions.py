"""The table of revisions, beside the methods that have handlers."""

from __future__ import annotations

from resource_server.protocol import revisions
from resource_server.protocol.methods import METHODS
from resource_server.protocol.revisions import (
    HANDSHAKE,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN,
    Revision,
)


def test_the_last_revision_of_each_era_is_the_latest() -> None:
    assert [*HANDSHAKE, *MODERN] == sorted((*HANDSHAKE, *MODERN))
    assert LATEST_HANDSHAKE is HANDSHAKE[max(HANDSHAKE)]
    assert LATEST_MODERN is MODERN[max(MODERN)]
    for name, revision in (HANDSHAKE | MODERN).items():
        assert (revision.name, revision.modern) == (name, name in MODERN)


def test_every_method_of_a_revision_has_a_handler_and_every_handler_a_revision() -> None:
    known = set[str]().union(*(each.methods for each in (HANDSHAKE | MODERN).values()))
    assert {name for name in METHODS if not name.startswith("notifications/")} <= known
    assert known <= METHODS.keys()


def test_no_two_errors_have_the_same_code() -> None:
    codes = {
        name: value
        for name, value in vars(revisions).items()
        if name.isupper() and isinstance(value, int)
    }
    assert len(codes) == 12
    assert len(set(codes.values())) == len(codes)
    # JSON-RPC reserves this range.
    assert all(-32768 <= code <= -32000 for code in codes.values())


def test_only_one_revision_has_batches_and_none_loses_what_an_earlier_one_has() -> None:
    every: list[Revision] = [*HANDSHAKE.values(), *MODERN.values()]
    assert [each.name for each in every if each.batches] == ["2025-03-26"]
    for member in ("audio_blocks", "titles", "forms", "structured_results", "tool_annotations"):
        has = [getattr(each, member) for each in every]
        assert has == sorted(has), member
