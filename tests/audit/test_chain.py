from __future__ import annotations

import json

from resource_server.audit.chain import FIRST, Chain, digest, link_of
from tests.cases import for_each


def test_each_line_has_the_hash_of_the_one_before() -> None:
    chain = Chain()
    first, second = chain.add(b'{"a":1}'), chain.add(b'{"b":2}')
    assert json.loads(first) == {"a": 1, "prev": FIRST}
    assert json.loads(second)["prev"] == digest(first.rstrip(b"\n"))
    assert chain.last == digest(second.rstrip(b"\n"))


def test_a_chain_is_continued_from_its_last_hash() -> None:
    assert link_of(Chain("ab" * 32).add(b'{"a":1}').rstrip()) == "ab" * 32


@for_each(
    "line",
    [
        b"",
        b"# a heading",
        b'{"a":1}',
        b'{"a":1,"prev":"12"}',
        b'["prev"]',
        b'{"a":1,"prev":"%b"} ' % (b"0" * 64),
        b'{"a":"\\",\\"prev\\":\\"%b"}' % (b"0" * 64),
    ],
)
def test_other_text_is_no_line_of_a_record(line: bytes) -> None:
    assert link_of(line) is None


def test_text_of_a_client_is_not_taken_for_the_hash() -> None:
    text = json.dumps({"uri": f'","prev":"{"f" * 64}"}}'}).encode()
    assert link_of(Chain().add(text).rstrip()) == FIRST
