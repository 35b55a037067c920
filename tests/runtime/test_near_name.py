from __future__ import annotations

from resource_server.runtime.near_name import as_typed, did_you_mean, near_name
from tests.cases import for_each


@for_each("name", ["maxsize", "maxSize", "max-size", "MAX_SIZE", "max_sze"])
def test_misspelt_names_suggest_the_intended_one(name: str) -> None:
    assert near_name(name, ["page_size", "max_size", "title"]) == "max_size"


def test_a_dissimilar_name_has_no_suggestion() -> None:
    assert near_name("zzz", ["max_size", "title"]) is None
    assert did_you_mean("zzz", ["max_size", "title"]) == ""


def test_a_suggestion_is_phrased_as_the_end_of_a_message() -> None:
    assert did_you_mean("titel", ["title"]) == "; did you mean 'title'?"


def test_a_very_long_name_is_compared_by_its_start() -> None:
    assert near_name("title" + "x" * 1_000_000, ["title"]) is None


def test_a_name_as_typed_is_composed_and_has_plain_spaces() -> None:
    assert as_typed("Cafe\u0301 9.41\u202fAM\u00a0x") == "Café 9.41 AM x"
    assert as_typed("\udce4 ﬁ") == "\udce4 ﬁ"  # neither repaired nor replaced by look-alikes
