"""Damaged variants of a document."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import settings

from tests.conversion.formats.zipped import unzipped, zipped


def damaged(document: bytes, *, count: int, seed: int = 1) -> Iterator[bytes]:
    """Yield variants with bytes changed, removed or repeated; every other one is truncated.

    `count` is of a run with all examples; the default run has fewer, as of properties.
    """
    rng = random.Random(seed)  # noqa: S311
    for number in range(max(2, count * settings().max_examples // 100)):
        data = bytearray(document[: rng.randrange(len(document))] if number % 2 else document)
        for _ in range(rng.choice((0, 1, 1, 3, 20)) if number % 2 else rng.choice((1, 1, 3, 20))):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(4):
                case 0:
                    del data[at : at + rng.randrange(1, 40)]
                case 1:
                    data[at:at] = data[at : at + 40]
                case _:
                    data[at : at + 1] = bytes([rng.randrange(256)])
        yield bytes(data)


def damaged_archives(document: bytes, *, count: int, of_each: int) -> Iterator[bytes]:
    """Yield variants of a ZIP archive: `count` damaged whole, then `of_each` of its members."""
    yield from damaged(document, count=count)
    members = unzipped(document)
    for name, content in members.items():
        for data in damaged(content, count=of_each):
            yield zipped({**members, name: data})
