from __future__ import annotations

import json
import shutil
import subprocess
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.runtime.json_numbers import (
    LARGEST_INTEGER,
    exact_integer,
    exact_json,
    inexact_json,
)
from tests.cases import for_each

KEPT = (
    *("0", "-1", "1.10", "0.1", "1e22", "-0.0", "5e-324", "0.30000000000000004"),
    *(str(LARGEST_INTEGER), str(-LARGEST_INTEGER), "123456789012345", "1.7976931348623157e308"),
)
TEXT = (
    *("9007199254740992", "9007199254740993", "-9007199254740993", "1" * 5000, "1e400", "1e-400"),
    *(
        "12345678901234567.12",
        "0.1234567890123456789",
        "9007199254740993.0",
        "1e99999999999999999999",
    ),
)
IN_TEXT = ('"9007199254740993"', r'"\"9007199254740993, 1e999"', r'"\\"', '"a\\\\" ')

NUMBERS = st.one_of(
    st.integers().map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.decimals(allow_nan=False, allow_infinity=False, places=20).map(lambda d: format(d, "f")),
)


def test_numbers_that_javascript_reads_exactly_stay_numbers_and_others_are_text() -> None:
    for number in KEPT:
        assert exact_json(f'{{"a": [{number}]}}') == f'{{"a": [{number}]}}', number
    for number in TEXT:
        assert exact_json(f'{{"a": [{number}]}}') == f'{{"a": ["{number}"]}}', number
    for text in IN_TEXT:
        assert exact_json(f"[{text},{TEXT[0]}]") == f'[{text},"{TEXT[0]}"]', text
    assert exact_integer(LARGEST_INTEGER) == LARGEST_INTEGER
    assert exact_integer(-LARGEST_INTEGER - 1) == str(-LARGEST_INTEGER - 1)


@given(st.lists(st.one_of(NUMBERS, st.text(max_size=20).map(json.dumps)), max_size=5))
def test_json_without_inexact_numbers_has_the_same_values(parts: list[str]) -> None:
    given = f"[{','.join(parts)}]"
    for value, part in zip(json.loads(exact_json(given)), parts, strict=True):
        if part[0] == '"' or not isinstance(value, str):
            assert value == json.loads(part)
        else:
            assert value == part


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_javascript_host_reads_the_same_numbers() -> None:
    sent = exact_json(f"[{','.join([*KEPT, *TEXT])}]")
    script = "console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0)).map(String)))"
    done = subprocess.run(
        [str(shutil.which("node")), "-e", script],
        input=sent,
        capture_output=True,
        text=True,
        check=True,
    )
    for shown, number in zip(json.loads(done.stdout), [*KEPT, *TEXT], strict=True):
        assert shown == number or Decimal(shown) == Decimal(number), number


@for_each(
    ("shown", "others"),
    [
        ('{"n": 1, "s": "12"}', []),
        ('"12345678901234567890"', ["12345678901234567890"]),
        (
            '["12345678901234567890", "x\\"", "0.12345678901234567891"]',
            [
                '[12345678901234567890, "x\\"", 0.12345678901234567891]',
                '[12345678901234567890, "x\\"", "0.12345678901234567891"]',
                '["12345678901234567890", "x\\"", 0.12345678901234567891]',
            ],
        ),
        ('{"12345678901234567890" : "012345678901234567890"}', []),
        (str(["12345678901234567890"] * 9).replace("'", '"'), [str([12345678901234567890] * 9)]),
    ],
)
def test_json_that_is_shown_alike_is_found(shown: str, others: list[str]) -> None:
    assert list(inexact_json(shown)) == others
    for other in others:
        assert exact_json(other) == shown
