"""Tables of PDF pages."""

from __future__ import annotations

import io
from collections.abc import Sequence

from resource_server.conversion.formats.pdf import convert
from resource_server.provider.conversion import ConversionRequest
from tests.cases import for_each
from tests.conversion.portable import SCAN, pdf
from tests.conversion.samples.pages import placed_pdf

_ROWS = (("City", "Height", "Note"), ("La Paz", "3,640.5", "a|b"), ("Lhasa", "", "x"))
_AT = (60, 200, 320)


def _text(*lines: tuple[float, float, str]) -> str:
    request = ConversionRequest(media_type="application/pdf")
    (part,) = convert(io.BytesIO(placed_pdf([lines])), request)
    return str(part.data)


def _placed(
    rows: Sequence[Sequence[str]], top: float = 600, pitch: float = 18, at: Sequence[float] = _AT
) -> list[tuple[float, float, str]]:
    return [
        (x, top - pitch * number, cell)
        for number, row in enumerate(rows)
        for x, cell in zip(at, row, strict=True)
        if cell
    ]


_TABLE = (
    "| City | Height | Note |\n| --- | --- | --- |\n| La Paz | 3,640.5 | a\\|b |\n| Lhasa |  | x |"
)


def test_cells_stay_with_their_headers_between_the_text_around_them() -> None:
    text = _text((60, 700, "Before it"), *_placed(_ROWS), (60, 400, "After it"))
    assert f"Before it\n\n{_TABLE}\n\nAfter it" in text


@for_each("pitch", [12, 14, 25])
def test_rows_may_be_narrow_or_wide(pitch: float) -> None:
    assert _TABLE in _text(*_placed(_ROWS, pitch=pitch))


def test_a_column_may_have_no_name_and_a_row_only_one() -> None:
    rows = [("", "Hours", "Cost", "Tax"), ("Body", "2", "1.50", "9")]
    rows += [("Labels", "", "", ""), ("Paint", "", "7", "9")]
    text = _text(*_placed(rows, at=(60, 200, 320, 400)))
    assert "|  | Hours | Cost | Tax |\n" in text
    assert "| Labels |  |  |  |\n| Paint |  | 7 | 9 |" in text


def test_columns_of_prose_are_no_table() -> None:
    long = "a sentence of some forty characters, or more"
    text = _text(*_placed([(long, long, long)] * 5, at=(10, 260, 510)))
    assert "|" not in text


def test_two_columns_or_two_rows_are_no_table() -> None:
    assert "|" not in _text(*_placed([("a", "b")] * 9, at=(60, 200)))
    assert "---" not in _text(*_placed(_ROWS[:2]))


@for_each("pitch", [5, 7, 9, 12])
def test_no_letter_is_lost_or_repeated_where_lines_overlap(pitch: float) -> None:
    lines = _placed([("Qx", "3,640.5", "zj")] * 4, pitch=pitch)
    text = _text(*lines).replace("## Page 1\n\n### Page\n", "")
    for letter in "Qxzj6.":
        assert text.partition("- <")[0].count(letter) == 4, (letter, text)


def test_a_page_is_a_picture_if_it_shows_one_and_no_text() -> None:
    request = ConversionRequest(media_type="application/pdf")
    parts = convert(io.BytesIO(pdf("text", SCAN, "")), request)
    assert [part.is_picture for part in parts] == [False, True, False]
