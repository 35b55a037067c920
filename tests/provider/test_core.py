from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from resource_server import provider
from resource_server.provider import ByteSize
from resource_server.testing import check_provider


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (0, 0),
        (4096, 4096),
        ("4096", 4096),
        ("512B", 512),
        ("1kB", 1000),
        ("1k", 1000),
        ("64KiB", 65536),
        ("64 KiB", 65536),
        (" 64kib ", 65536),
        ("1.5MiB", 1572864),
        ("10MB", 10_000_000),
        ("2GiB", 2 * 1024**3),
        ("1TB", 10**12),
    ],
)
def test_a_size_is_a_number_of_bytes_or_one_with_a_unit(written: object, size: int) -> None:
    assert ByteSize.parse(written) == size


@pytest.mark.parametrize(
    "written", ["", "KiB", "-1", "1e3", "10 bytes", "0x10", "1 K i B", "٣", -1, True, None, 1.5, []]
)
def test_what_is_not_a_size_is_refused_with_an_example(written: object) -> None:
    with pytest.raises(ValueError, match="64KiB"):
        ByteSize.parse(written)


@given(st.integers(min_value=0, max_value=2**63))
def test_a_plain_number_is_exact_however_it_is_written(size: int) -> None:
    assert ByteSize.parse(size) == size
    assert ByteSize.parse(str(size)) == size


def test_a_size_can_be_an_option_and_says_what_it_expected() -> None:
    option = TypeAdapter(ByteSize)
    assert option.validate_python("64KiB") == 65536
    with pytest.raises(ValidationError, match="not a size"):
        option.validate_python("much")


@pytest.mark.parametrize("written", ["9" * 400, "9" * 400 + "TiB"], ids=["plain", "with a unit"])
def test_an_absurd_size_is_refused_as_any_other(written: str) -> None:
    with pytest.raises(ValueError, match="64KiB"):
        ByteSize.parse(written)


@given(st.from_regex(r"\A[0-9]{1,3}(\.[0-9])? ?[kKmMgGtT]?[iI]?[bB]?\Z"))
def test_the_json_schema_of_a_size_accepts_what_is_accepted(written: str) -> None:
    number, text = TypeAdapter(ByteSize).json_schema()["anyOf"]
    assert number == {"minimum": 0, "type": "integer"}
    try:
        ByteSize.parse(written)
    except ValueError:
        assert not re.search(text["pattern"], written)
    else:
        assert re.search(text["pattern"], written)


def test_the_contract_imports_without_pydantic() -> None:
    script = "import sys, resource_server.provider; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.anyio
async def test_the_example_of_the_contract_keeps_the_contract() -> None:
    assert provider.__doc__
    found = re.search(r"^    @dataclass\n(?:(?:    .*)?\n)+", provider.__doc__, re.MULTILINE)
    assert found
    names: dict[str, Any] = {**vars(provider), "dataclass": dataclass, "__name__": __name__}
    exec(textwrap.dedent(found[0]), names)  # noqa: S102
    await check_provider(names["Greetings"](names=("alan", "ada")))
