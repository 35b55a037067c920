"""Small documents of every format, each with planted facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.conversion.facts import Fact
from tests.conversion.samples import columnar, data, office, open_document, pages, whole


@dataclass(frozen=True)
class Sample:
    """A document, and the facts in it."""

    name: str
    """File name; its suffix is the format."""
    data: bytes
    facts: tuple[Fact, ...]


SAMPLES: Sequence[Sample] = tuple(
    Sample(name, document, facts)
    for module in (pages, office, open_document, data, columnar, whole)
    for name, (document, facts) in module.documents().items()
)
