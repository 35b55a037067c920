"""Workers: which parts of a document they send, and how documents end them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from resource_server.conversion.messages import MAX_PARTS
from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError
from tests.conversion.pools import HOSTILE, MODULES, converted
from tests.conversion.portable import pdf


def test_the_pictures_that_fit_are_kept(pool: ConverterPool, tmp_path: Path) -> None:
    assert len(converted(pool, tmp_path / "x", b"show", HOSTILE)) == 1


def test_parts_without_end_are_cut(tmp_path: Path) -> None:
    patient = ConverterPool(modules=[MODULES])
    try:
        found = converted(patient, tmp_path / "x", b"nothing", HOSTILE)
    finally:
        patient.close()
    assert found == [""] * MAX_PARTS


@pytest.mark.guarantee("converters-are-confined")
def test_damaged_documents_fail_alone(pool: ConverterPool, tmp_path: Path) -> None:
    whole = pdf("one", "two")
    for size in range(0, len(whole), 97):
        with suppress(ConversionError):
            found = converted(pool, tmp_path / "x", whole[:size])
            assert all(part.startswith("## Page") for part in found)
    assert len(converted(pool, tmp_path / "x", whole)) == 2
