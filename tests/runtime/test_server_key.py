from __future__ import annotations

import subprocess
import sys

from resource_server.runtime.server_key import ServerKey, process_key
from tests.cases import for_each

KEY = ServerKey(b"0123456789abcdef0123456789abcdef")


def test_derived_keys_are_the_same_in_every_process() -> None:
    code = (
        "from resource_server.runtime.server_key import ServerKey;"
        "print(ServerKey(b'0123456789abcdef0123456789abcdef').derived('mask: hash').hex())"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == KEY.derived("mask: hash").hex()


def test_derived_keys_differ_by_purpose_and_by_key() -> None:
    found = {
        KEY.derived("mask: hash"),
        KEY.derived("another"),
        ServerKey(b"another").derived("mask: hash"),
    }
    assert len(found) == 3
    assert all(len(key) == 32 for key in found)


def test_a_key_is_not_shown() -> None:
    assert "0123456789abcdef" not in f"{KEY} {KEY!r} {[KEY]}"


def test_equal_secrets_are_equal_keys() -> None:
    assert ServerKey(b"a") == ServerKey(b"a")
    assert ServerKey(b"a") != ServerKey(b"b")
    assert len({ServerKey(b"a"), ServerKey(b"a")}) == 1


def test_the_key_of_the_process_is_random_and_stays() -> None:
    assert process_key() is process_key()
    assert not process_key().is_lasting
    assert KEY.is_lasting


@for_each("purpose", ["", "a" * 16])
def test_a_purpose_has_up_to_16_bytes(purpose: str) -> None:
    assert KEY.derived(purpose)
