"""Converters that break the contract, each in one way."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import BinaryIO

from resource_server.provider.conversion import ConversionRequest, Part

_calls = itertools.count()


def good(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield a part for each line."""
    lines = file.read().split(b"\n")
    for number, line in enumerate(lines, 1):
        if request.first <= number <= (request.last or number):
            yield Part(line.decode("utf-8", "replace"), number, len(lines))


def without_parts(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield nothing."""
    return iter(())


def out_of_order(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield the parts from the last to the first."""
    yield from reversed(list(good(file, request)))


def with_wrong_totals(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield parts that are more than their total."""
    for part in good(file, request):
        yield Part(part.data, part.number, 1)


def ever_changing(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield something else each time."""
    yield Part(f"call {next(_calls)}")


def without_ranges(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield all parts, whichever are asked for."""
    lines = file.read().split(b"\n")
    yield from (Part(line.decode("utf-8", "replace"), n) for n, line in enumerate(lines, 1))


def dying(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """End the process on what does not end as it should."""
    data = file.read()
    if not data.endswith(b"end"):
        os._exit(1)
    yield Part("fine")


def bytes_as_markdown(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Yield bytes of a text type."""
    yield Part(b"bytes")


def reading_other_files(file: BinaryIO, request: ConversionRequest) -> Iterator[Part]:
    """Read another file."""
    with open("/etc/hostname", encoding="utf-8") as other:  # noqa: PTH123
        yield Part(other.read())
