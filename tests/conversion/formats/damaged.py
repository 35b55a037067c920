"""Damaged variants of a document."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import settings


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
