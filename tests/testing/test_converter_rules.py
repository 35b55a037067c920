from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from resource_server.conversion import registry
from resource_server.media_types import from_name
from resource_server.testing import ConverterViolations, check_converter
from tests.benchmarks import corpus

HERE = Path(__file__).parent
LINES: Mapping[str, bytes] = {"lines": b"one\ntwo\nthree\nend"}


def violations(name: str) -> tuple[str, ...]:
    with pytest.raises(ConverterViolations) as broken:
        check_converter(f"broken_converters:{name}", LINES, media_type="text/x", modules=[HERE])
    assert str(broken.value).startswith("the converter breaks its contract\n")
    return broken.value.violations


def test_a_converter_that_keeps_the_contract_passes() -> None:
    check_converter("broken_converters:good", LINES, media_type="text/x", modules=[HERE])


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("without_parts", "lines has at least one part"),
        ("out_of_order", "lines counts its parts up from 1, each once, not [4, 3, 2, 1]"),
        ("with_wrong_totals", "lines has no part 4 of 1"),
        ("ever_changing", "lines gives the same parts each time"),
        ("without_ranges", "lines gives parts 1 to 1 as in the whole document"),
        ("without_ranges", "lines has no part 1004"),
        ("dying", "an empty document is refused without an end of the worker"),
        ("dying", "lines, truncated is refused without an end of the worker"),
        ("bytes_as_markdown", "lines has no bytes of type text/markdown"),
        ("reading_other_files", "lines is converted: "),
    ],
)
def test_a_broken_rule_is_reported(name: str, sentence: str) -> None:
    if name == "reading_other_files" and sys.platform != "linux":
        pytest.skip("only Linux refuses it other files")
    assert any(each.startswith(sentence) for each in violations(name)), violations(name)


def test_the_built_in_converters_keep_the_contract(tmp_path: Path) -> None:
    checked = set[str]()
    for suffix, (path,) in corpus.write(tmp_path, 1).items():
        media_type = from_name(path.name, ()) or ""
        entry = registry.Converters().of(media_type)
        assert entry is not None, suffix
        check_converter(
            entry.reference,
            {suffix: path.read_bytes()},
            media_type=media_type,
            in_parts=entry.unit is not None,
        )
        checked.add(suffix)
    assert checked == {"pdf", "docx", "xlsx", "pptx", "html", "epub", "ipynb", "eml", "csv"}
