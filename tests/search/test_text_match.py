from __future__ import annotations

import re
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.provider.search import SearchRequest
from resource_server.search import text_match
from resource_server.search.text_match import MAX_LINE_LENGTH, MAX_LINES, LineQuery
from tests.cases import for_each


def found(query: str, text: str | bytes) -> list[tuple[int, str]]:
    is_pattern = len(query) > 2 and query[0] == query[-1] == "/"
    sought = SearchRequest(
        text=query[1:-1] if is_pattern else query, where="text", is_pattern=is_pattern
    )
    data = text.encode() if isinstance(text, str) else text
    return [
        (line.number, line.text)
        for line in LineQuery(sought).matches(data, keep=text_match.MAX_LINES).lines
    ]


def test_a_text_is_found_ignoring_case_with_its_line_number() -> None:
    assert found("Hello", "x\nsay HELLO\r\n\nhello\n") == [(2, "say HELLO"), (4, "hello")]


@for_each(
    ("query", "text"),
    [
        ("straße", "Die STRASSE"),
        ("ÄRGER", "ärger"),
        ("дом", "ДОМ 5"),
        ("i̇", "İ"),
        ("日本", "日本語"),
    ],
)
def test_letters_beyond_ascii_are_matched_ignoring_case(query: str, text: str) -> None:
    assert found(query, f"\n{text}") == [(2, text)]


def test_an_expression_is_matched_case_sensitively_against_each_line() -> None:
    text = "def a\nDef b\ndef\n\nc def d\n"
    assert found(r"/^def/", text) == [(1, "def a"), (3, "def")]
    assert found(r"/(?i)^def \w$/", text) == [(1, "def a"), (2, "Def b")]
    assert found(r"/def\s+c/", text) == []
    assert found(r"/[^x]+z|d$/", text) == [(5, "c def d")]
    assert found(r"/^$/", text) == [(4, "")]
    assert found(r"/f\nD/", text) == []


def test_an_expression_matches_the_end_of_windows_lines() -> None:
    assert found("/a;$/", "a;\r\nb;\r\nxa;") == [(1, "a;"), (3, "xa;")]


@for_each("text", ["", "\n", "\n\n"])
def test_empty_text_has_as_many_lines_as_line_ends(text: str) -> None:
    assert found("/^/", text) == [(number + 1, "") for number in range(len(text))]


def test_only_the_first_matching_lines_are_quoted_once_each() -> None:
    assert found("a", "a a a\n" * 50) == [(number, "a a a") for number in range(1, MAX_LINES + 1)]


@for_each("at", [0, 30, 150, 199, 1000, 40_000])
def test_a_long_line_is_truncated_around_the_match(at: int) -> None:
    line = "ä" * at + "NEEDLE" + "ö" * 5000
    ((number, text),) = found("needle", f"first\n{line}\nlast")
    assert number == 2
    assert "NEEDLE" in text
    assert len(text) <= MAX_LINE_LENGTH + 2
    assert text.endswith("…")
    assert text.startswith("…") == (at > 60)
    assert text.strip("…") in line


def test_a_line_that_fits_is_not_truncated() -> None:
    line = "ä" * (MAX_LINE_LENGTH - 6) + "needle"
    assert found("needle", line) == [(1, line)]


def reference(query: str, text: str) -> list[int]:
    """Return the numbers of the lines that match, by the plainest of means."""
    every = text.split("\n")
    if every[-1] == "":
        every.pop()
    return [number for number, line in enumerate(every, 1) if query.casefold() in line.casefold()]


@for_each(("query", "cut"), [("needle", 64 * 1024), ("/n+eedle$/", 64 * 1024)])
@for_each("before", [0, 1, 3, 5, 6, 100])
def test_a_match_at_the_seam_of_two_slices_is_found(query: str, cut: int, before: int) -> None:
    text = "\n" + "x" * (cut - before) + "needle"
    assert [number for number, _ in found(query, text + "\nx\n")] == [2]


@for_each("begin", [61_440, 61_441, 63_000, 65_535, 65_536])
def test_an_expression_matches_4_kib_across_any_slice_boundary(begin: int) -> None:
    text = "\n" + "x" * (begin - 1) + "a" + "b" * 4094 + "c"
    for end in "", "y", "\n", "y" * 100_000:
        assert [number for number, _ in found("/ab+c/", text + end)] == [2]


def test_a_slice_boundary_counts_as_neither_start_nor_end_of_a_line() -> None:
    text = "a" * 300_000
    for expression in "/^a.*$/", "/.^a/", "/a$./", r"/\ba\b/":
        assert found(expression, f"\n{text}\nb") == []
    assert [number for number, _ in found("/^a/", f"\n{text}\nab")] == [2, 3]
    assert [number for number, _ in found("/a$/", f"\n{text}\nba")] == [2, 3]


def test_an_expression_is_never_run_on_more_than_64_kib_per_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    expression = text_match._expression  # pyright: ignore[reportPrivateUsage]

    def spied(text: str, **options: bool) -> text_match.Find:
        find = expression(text, **options)

        def asking(data: bytes, begin: int, end: int) -> int:
            asked.append(end - begin)
            return find(data, begin, end)

        return asking

    monkeypatch.setattr(text_match, "_expression", spied)
    for text in "a" * 1_000_000, "a" * 1_000_000 + "\n", "a" * 65_536, "a" * 65_536 + "\n":
        assert found("/b/", text) == []
    assert max(asked) == 64 * 1024


TEXTS = st.text(st.sampled_from("abßé日\n\n "), max_size=120)


@given(text=TEXTS, query=st.text("abßé日 ", min_size=1, max_size=3), size=st.integers(24, 64))
def test_a_text_is_found_alike_in_one_piece_and_in_slices(text: str, query: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_match, "_SLICE", size)
        patch.setattr(text_match, "_OVERLAP", 20)
        patch.setattr(text_match, "MAX_LINES", 1000)
        numbers = [number for number, _ in found(query, text)]
    assert numbers == reference(query, text)


@given(
    text=st.text("ab\r\n ", max_size=120),
    query=st.sampled_from(["^a", "b$", "^$", "a *b", "^", "(a|b)+ ", r"\bb", "[^a]b"]),
    size=st.integers(24, 64),
)
def test_an_expression_matches_as_in_python_in_one_piece_and_in_slices(
    text: str, query: str, size: int
) -> None:
    text = text.replace("\r", "\r\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_match, "_SLICE", size)
        patch.setattr(text_match, "_OVERLAP", 20)
        patch.setattr(text_match, "MAX_LINES", 1000)
        numbers = [number for number, _ in found(f"/{query}/", text)]
    # In a line that is cut, only what is no longer than the overlap is found.
    if max(map(len, text.split("\n"))) < size and ("\r\n" in text[:size]) == ("\r\n" in text):
        every = text.replace("\r\n", "\n").split("\n")
        every = every[:-1] if every[-1] == "" else every
        assert numbers == [n for n, line in enumerate(every, 1) if re.search(query, line)]


@for_each(
    "expression",
    ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)*x", "(a?){50}a{50}", "(x+x+)+y", "^(([a-z])+.)+[A-Z]$"],
)
def test_an_expression_prone_to_backtracking_is_fast(expression: str) -> None:
    found(f"/{expression}/", "a" * 500_000 + "!")


@for_each("expression", ["(", "a(?=b)", r"(a)\1", "[z-a]", "a{1001}", "*", r"\pL{900}", "(?<=a)b"])
def test_an_unusable_expression_is_refused_with_the_reason(expression: str) -> None:
    with pytest.raises(InvalidParameter, match=r"not a regular expression of RE2.*: .+") as caught:
        found(f"/{expression}/", "")
    assert "(?m)" not in str(caught.value)


def test_without_re2_expressions_are_refused_but_plain_text_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidParameter, match=r"the extra `regex`"):
        found("/a/", "a")
    assert found("a", "A") == [(1, "A")]


def test_a_50_megabyte_line_is_searched_in_interruptible_steps() -> None:
    data = b"a" * 50_000_000 + b"needle"
    text = LineQuery(SearchRequest(text="needle", where="text"))
    assert [line.number for line in text.matches(data).lines] == [1]
    steps = 0

    def check() -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise TimeoutError

    for sought in (
        SearchRequest(text="needle", where="text"),
        SearchRequest(text="ñeedle", where="text"),
        SearchRequest(text="(a+)+b", where="text", is_pattern=True),
    ):
        steps = 0
        with pytest.raises(TimeoutError):
            LineQuery(sought).matches(data, check)


def test_no_step_blocks_other_threads_for_long() -> None:
    # A ratio: what takes long as a whole is many steps, each a small part of it.
    data = b"abc def\n" * 2_000_000
    for sought in (
        SearchRequest(text="xyz", where="text"),
        SearchRequest(text="xyß", where="text"),
        SearchRequest(text="x+z$", where="text", is_pattern=True),
    ):
        moments = [time.monotonic()]
        LineQuery(sought).matches(data, lambda: moments.append(time.monotonic()))  # noqa: B023
        assert len(moments) > 100


# -- words, context and counts


def matches(text: str, /, keep: int = 5, **asked: Any) -> text_match.Matches:
    options: dict[str, Any] = {"text": "", "where": "text", **asked}
    query = LineQuery(SearchRequest(**options))
    found = query.matches(text.encode(), keep=keep)
    assert query.may_be_in(text.encode()) or not found.count
    return found


def numbers(found: text_match.Matches) -> list[int]:
    return [line.number for line in found.lines if not line.is_context]


@for_each(
    ("text", "line", "document", "most"),
    [
        ("a b c\nx\nc b a", [1, 3], [], []),
        ("a b\nc", [], [1], []),
        ("a\na\nb\nc c\na", [], [3], []),
        ("a b\nx\nb a", [], [], [1, 3]),
        ("a\nb\na", [], [], [2]),
        ("a a a", [], [], []),
        ("", [], [], []),
    ],
)
def test_a_document_belongs_to_one_step_of_a_search_for_words(
    text: str, line: list[int], document: list[int], most: list[int]
) -> None:
    steps = (("line", line), ("document", document), ("most", most))
    for together, expected in steps:
        found = matches(text, words=("a", "B", "c"), together=together)
        assert (numbers(found), found.count) == (expected, len(expected)), together


@given(
    text=st.text(st.sampled_from("abcé \n"), max_size=90),
    words=st.lists(st.sampled_from(["a", "bc", "é", "c "]), min_size=2, max_size=4, unique=True),
    size=st.integers(24, 64),
)
def test_words_are_found_alike_in_one_piece_and_in_slices(
    text: str, words: list[str], size: int
) -> None:
    for together in ("line", "document", "most"):
        asked: dict[str, Any] = {"words": tuple(words), "together": together, "keep": 1000}
        whole = matches(text, **asked)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(text_match, "_SLICE", size)
            patch.setattr(text_match, "_OVERLAP", 20)
            assert numbers(matches(text, **asked)) == numbers(whole)
        if together == "line":
            every = text.split("\n")
            holding = [n for n, row in enumerate(every, 1) if all(word in row for word in words)]
            assert numbers(whole) == holding


def test_all_matching_lines_are_counted_and_some_quoted() -> None:
    found = matches("a\nb\n" * 50, text="A", keep=3)
    assert (numbers(found), found.count, found.shown, found.has_more) == ([1, 3, 5], 50, 3, True)
    rest = matches("a\nb\n" * 50, text="A", keep=50, after_line=5)
    assert (rest.count, rest.shown, rest.has_more) == (50, 47, False)
    assert numbers(rest)[0] == 7
    assert not matches("a\n", text="a", after_line=10**9 - 1).shown


def test_a_count_ends_at_10_000_lines() -> None:
    assert matches("a\n" * 100_000, text="a").count == text_match.MAX_COUNTED


def test_lines_around_a_match_are_marked_and_come_once() -> None:
    found = matches("\n".join("0a2a45678a"), text="a", context=2)
    assert [(line.number, line.is_context) for line in found.lines] == [
        (number, number not in (2, 4, 10)) for number in (1, 2, 3, 4, 5, 6, 8, 9, 10)
    ]


def test_case_is_matched_where_it_is_asked_for() -> None:
    text = "Äpfel\näpfel\nB\nb"
    assert numbers(matches(text, text="ä")) == [1, 2]
    assert numbers(matches(text, text="ä", match_case=True)) == [2]
    assert numbers(matches(text, text="B", match_case=True)) == [3]
    assert numbers(matches(text, text="b", is_pattern=True)) == [4]
    assert numbers(matches(text, text="b", is_pattern=True, match_case=False)) == [3, 4]


def test_many_matches_are_found_in_linear_time() -> None:
    few, many = "ä b c\n" * 20_000, "ä b c\n" * 300_000
    several: list[dict[str, Any]] = [
        {"text": "ä"},
        {"text": "b"},
        {"text": "b", "is_pattern": True},
        {"words": ("b", "c", "x"), "together": "most"},
    ]
    for asked in several:
        # 15 times as long, or 225 times if it were quadratic; a busy machine can slow down any one.
        least = min(_cpu_s(few, asked) for _ in range(3))
        assert any(_cpu_s(many, asked) < 60 * least for _ in range(5))


def _cpu_s(text: str, asked: dict[str, Any]) -> float:
    begin = time.process_time()
    assert matches(text, **asked).count
    return time.process_time() - begin


@for_each(
    "asked", [{"text": "a"}, {"words": ("a", "b")}, {"words": ("a", "b"), "together": "document"}]
)
def test_every_line_beyond_those_that_are_counted_is_found(asked: dict[str, Any]) -> None:
    document = asked.get("together") == "document"
    text = "a\n" * 20_000 + "b\n" * 20_001 if document else "b a\n" * 20_000
    seen, after_line, has_more = 0, 0, True
    while has_more:
        found = matches(text, keep=5000, after_line=after_line, **asked)
        assert found.count == text_match.MAX_COUNTED
        seen, after_line, has_more = seen + found.shown, numbers(found)[-1], found.has_more
    assert seen == 20_000


def test_bytes_with_windows_line_endings_may_match_an_end_of_line_only_if_a_line_does() -> None:
    query = LineQuery(SearchRequest(text="abc$", where="text", is_pattern=True))
    assert query.may_be_in(b"\xff\r\nabc\r\n")
    assert not query.may_be_in(b"\xff\r\nabcd\r\n")
