"""Facts that are planted in documents of every format, found in the text that clients are given."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from resource_server.conversion.pool import ConverterPool
from tests.cases import for_each
from tests.conversion.comparison import converted
from tests.conversion.facts import Absent, Cell, Fact, Heading, Link, Ordered, Placed, Text
from tests.conversion.samples import SAMPLES, Sample


@pytest.fixture(scope="module")
def pool() -> Generator[ConverterPool]:
    pool = ConverterPool()
    yield pool
    pool.close()


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
def test_every_fact_of_a_document_is_found(
    sample: Sample, pool: ConverterPool, tmp_path: Path
) -> None:
    path = tmp_path / sample.name
    path.write_bytes(sample.data)
    text = converted(pool, path)
    assert [fact for fact in sample.facts if not fact.is_in(text)] == []


_TEXT = """# Report

## Page 1

See [the **page**](https://e.org/), a \\* b

| city | height |
| --- | --- |
| Lhasa | 3,656 |

## Page 2

last
"""


@for_each(
    ("fact", "other"),
    [
        (Text("a * b"), Text("b a")),
        (Absent("none"), Absent("last")),
        (Ordered(("Report", "Lhasa", "last")), Ordered(("last", "Lhasa"))),
        (Heading("Report"), Heading("Lhasa")),
        (Link("https://e.org/"), Link("https://e.org/", "last")),
        (Placed("Page 2", "last"), Placed("Page 1", "last")),
        (Cell("Lhasa", "height", "3,656"), Cell("Lhasa", "city", "3,656")),
    ],
)
def test_a_fact_is_told_from_another(fact: Fact, other: Fact) -> None:
    assert fact.is_in(_TEXT)
    assert not other.is_in(_TEXT)
