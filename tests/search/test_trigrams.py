from __future__ import annotations

import sqlite3
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from resource_server.errors import InvalidParameter
from resource_server.provider.search import SearchRequest, Together
from resource_server.search import trigrams
from resource_server.search.text_match import LineQuery
from tests.cases import for_each

_LETTERS = (
    "aAbBcCsSkKiIfFnNx1_ .-\t\"'%*\x1c\x7f"
    "ßẞéÉ\u02bcnŉﬁﬆᾳᾼ\u0391\u03b1\u0399\u03b9ς\u03c3ΣÅåÅİ\u0131\u017fKǅǆΐµμ한각\u1112\u1161\u11ab\u3000\u00a0\u2028\u0085"
    "\u0301\u0307\u0323\u0327\u0328\u0342\u0344\u0345\u0308\u0338\u0130\ufeff\uffff\U0001d518😀\U0001e943"
)
_WAYS: Sequence[tuple[Together, ...]] = (
    ("line",),
    ("document",),
    ("most",),
    ("line", "document"),
    ("document", "most"),
    ("line", "document", "most"),
)
_PATTERNS = {
    ".": "x", r"\w": "a", r"\s": " ", r"\b": "", r"\d": "1", r"\pL": "k", r"\p{Lu}": "K",
    r"\PL": "1", r"\x41": "A", r"\x{3b1}": "\u03b1", r"\101": "A", r"\.": ".", r"\Qa.b\E": "a.b",
    "[abc]": "b", "[^abc]": "x", "[]a]": "]", "[^]a]": "b", r"[\]a]": "]", "[[:alpha:]]": "z",
    r"[\x41-\x5a]": "B", r"[a\-b]": "-", "(a|b)": "b", "(?:ab)": "ab", "(?i)": "",
    "(?i:aB)": "Ab", "(?P<n>ab)": "ab", "((a)b)?": "", "()": "", "^": "", "$": "", "|": "",
    "x{2}": "xx", "a{0}": "", "b{1,2}": "bb", "s{0,}": "", "{": "{", "}": "}", "{,2}": "{,2}",
    "a{b}": "a{b}", "a*": "", "b+": "bbb", "s?": "", "a*?": "", "k+?": "kk", "x??": "",
    ".*": "xyz", "(ab)+": "abab", "(ab)*": "", "[ab]{2}": "ba", r"\Aab": "ab", r"ab\z": "ab",
    r"\-": "-", r"\"": '"', r"\ ": " ", "abc": "abc", "Sk": "Sk", "\u017fß": "\u017fß",
}  # fmt: skip
"""Parts of expressions, each with a text that it matches."""

_CHANGES: Sequence[Callable[[str], str]] = (
    str,
    str.upper,
    str.lower,
    str.swapcase,
    str.title,
    str.casefold,
    partial(unicodedata.normalize, "NFD"),
    partial(unicodedata.normalize, "NFC"),
)

characters = st.sampled_from(_LETTERS)
lines = st.text(characters, max_size=30)
texts = st.lists(lines, max_size=3).map("\n".join)


def may_match(request: SearchRequest, text: str) -> bool:
    """Return whether a document with this text would be looked into."""
    wanted = trigrams.of_request(request)
    if wanted is None:
        return True
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE t"
            " USING fts5(x, content='', columnsize=0, detail='none', tokenize='trigram')"
        )
        connection.execute("INSERT INTO t (rowid, x) VALUES (1, ?)", (text,))
        match = "SELECT rowid FROM t WHERE t MATCH ?"
        return bool(connection.execute(match, (wanted.expression(),)).fetchall())


def check(request: SearchRequest, data: bytes, text: str) -> None:
    """Check that a document is looked into if anything may be found in it."""
    try:
        query = LineQuery(request)
    except InvalidParameter:
        assume(condition=False)
        raise
    if query.may_be_in(data, None, (request.together, *request.then)):
        assert may_match(request, text), (request, trigrams.of_request(request))


def cut(text: str, places: Sequence[int]) -> Iterator[str]:
    begin = 0
    for place in sorted(places):
        yield text[begin:place]
        begin = max(place, begin)
    yield text[begin:]


@st.composite
def parts_of(draw: st.DrawFn, text: str) -> str:
    """A part of one line of a text, in any case and normal form."""
    line = draw(st.sampled_from(text.split("\n")))
    begin = draw(st.integers(0, len(line)))
    part = line[begin : begin + draw(st.integers(1, 9))] or "abc"
    change = draw(st.sampled_from(_CHANGES))
    return change(part)


@st.composite
def searches(draw: st.DrawFn) -> tuple[SearchRequest, str]:
    """A text, and a search of words that may be in it."""
    text = draw(texts)
    together, *then = draw(st.sampled_from(_WAYS))
    some = st.one_of(parts_of(text), parts_of(text), st.text(characters, min_size=1, max_size=5))
    words = tuple(draw(st.lists(some, min_size=1, max_size=6)))
    case = draw(st.sampled_from((None, True, False)))
    words = words if len(words) > 1 else ()
    first = words[0] if words else draw(some)
    request = SearchRequest(
        text=first, where="text", words=words, together=together, then=tuple(then), match_case=case
    )
    return request, text


@given(searches(), st.lists(st.integers(0, 60), max_size=4))
@example((SearchRequest(text="STRASSE", where="text"), "Straße"), [])
@example((SearchRequest(text="straße", where="text"), "STRASSE"), [])
@example((SearchRequest(text="\u03b1\u03b9\u0301b", where="text"), "\u1fb3\u0301b"), [1])
@example((SearchRequest(text="e\u0301ab", where="text"), "éab"), [1])
def test_words_that_a_search_finds_are_in_the_trigrams_of_the_text_however_it_is_cut(
    search: tuple[SearchRequest, str], places: Sequence[int]
) -> None:
    request, text = search
    check(request, text.encode(), trigrams.searchable(cut(text, places)))


@given(searches(), st.binary(max_size=3), st.integers(0, 30))
@example((SearchRequest(text="b\0\0b", where="text"), "ab\0\0bc"), b"\xff", 0)
def test_ascii_words_that_a_search_finds_are_in_the_trigrams_of_any_bytes(
    search: tuple[SearchRequest, str], rest: bytes, place: int
) -> None:
    request, text = search
    if all(map(str.isascii, (request.text, *request.words))):
        data = text.encode()
        pieces = data[:place], rest, data[place:]
        check(request, b"".join(pieces), trigrams.ascii_letters(pieces))


@given(
    st.lists(
        st.one_of(
            st.sampled_from(sorted(_PATTERNS)), st.sampled_from("aAbBcCsSkKßé\u03b1\u0301"), lines
        ),
        min_size=1,
        max_size=8,
    ).map("".join),
    st.lists(st.text("aAbBcCsSkKxX.-{}2,", min_size=1, max_size=20), min_size=1, max_size=3),
    st.sampled_from((None, True, False)),
)
@example("(" * 490 + "abcd" + ")" * 490, ["abcd"], None)
@example("abc$", ["xabc\r"], None)
@example(r"\Qabc\Ed", ["abcd"], None)
@example("ab{0}cd", ["acd"], None)
@example("abcd??", ["abc"], None)
@example("(?i)kelvin\u017f", ["\u212aELVINs"], None)
def test_what_an_expression_finds_is_in_the_trigrams_of_the_text(
    expression: str, found: Sequence[str], match_case: bool | None
) -> None:
    text = "\n".join(found)
    request = SearchRequest(text=expression, where="text", is_pattern=True, match_case=match_case)
    assume(0 < len(expression) <= 1000)
    check(request, text.encode(), trigrams.searchable((text,)))


@given(
    st.lists(st.sampled_from(sorted(_PATTERNS)), min_size=1, max_size=7),
    st.sampled_from((str, str.upper, str.lower)),
    st.sampled_from((None, True, False)),
)
def test_what_an_expression_finds_is_in_the_trigrams_of_a_text_made_for_it(
    parts: Sequence[str], change: Callable[[str], str], match_case: bool | None
) -> None:
    text = change("".join(map(_PATTERNS.__getitem__, parts)))
    request = SearchRequest(
        text="".join(parts), where="text", is_pattern=True, match_case=match_case
    )
    check(request, text.encode(), trigrams.searchable((text,)))


@pytest.mark.deep
def test_no_letter_folds_to_others_when_it_is_cut_off_its_marks() -> None:
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code < 0xE000:
            continue
        letter = chr(code)
        whole = trigrams.searchable((f"ab{letter}cd",))
        for form in ("NFD", "NFC"):
            parts = unicodedata.normalize(form, letter)
            assert trigrams.searchable(["ab", *parts, "cd"]) == whole, hex(code)
        folded = unicodedata.normalize("NFC", letter).casefold()
        assert trigrams.searchable(("ab", folded, "cd")) == whole, hex(code)


@for_each("together", ["line", "document", "most"])
def test_ten_thousand_words_make_an_expression_that_sqlite_accepts(together: Together) -> None:
    words = tuple(f"word{number:05}x" for number in range(10_000))
    request = SearchRequest(text=words[0], where="text", words=words, together=together)
    text = " ".join(words[: 10_000 if together != "most" else 5_001])
    assert may_match(request, trigrams.searchable((text,)))


@for_each(
    "request_, text",
    [
        (SearchRequest(text="needle", where="text"), "hay"),
        (SearchRequest(text="a+needle[0-9]", where="text", is_pattern=True), "a needle"),
        (SearchRequest(text="x", where="text", words=("needle", "hay")), "needle"),
        (
            SearchRequest(text="x", where="text", words=("one", "two", "six"), together="most"),
            "others",
        ),
    ],
)
def test_a_text_that_lacks_a_word_is_ruled_out(request_: SearchRequest, text: str) -> None:
    is_ruled_out = not may_match(request_, trigrams.searchable((text,)))
    assert is_ruled_out == (text != "a needle"), request_


@for_each("expression", ["a|b", "(abc", "ab\\", r"\Qabc", "ab", "[abc]*", "(abcdef)?"])
def test_an_expression_that_tells_no_text_rules_nothing_out(expression: str) -> None:
    request = SearchRequest(text=expression, where="text", is_pattern=True)
    assert trigrams.of_request(request) is None
