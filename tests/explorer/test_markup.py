"""Texts of documents as HTML."""

from __future__ import annotations

import html
import signal
import string
from collections.abc import Iterator
from time import thread_time
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments import lexers

from resource_server.explorer.markup import LANGUAGES, coloured_tokens, escaped_html, source_lines
from resource_server.explorer.page import visible_text
from tests.cases import for_each

HOLD_S = 0.2
"""Processor time between two tokens, at most: an expression holds the interpreter, and the loop."""
COLOURS_S = 0.003
"""Processor time for each text, which repeats what its first tokens are."""
LINES, LINE = 200, 490
MANY = 1990
STARTS = [
    *(
        '"',
        "'",
        '"""',
        "/*",
        "<!--",
        "(",
        "[",
        "{",
        "<",
        "</",
        '<a b="',
        "<a b=",
        'R"(',
        '"${',
        "${",
    ),
    *(
        "[[",
        "(*",
        "{-",
        "|-\n",
        "```\n",
        "---\n",
        "<script>",
        "<style>",
        "<?php ",
        "{{",
        "{%",
        "url(",
    ),
    *("a ", "a = ", "a: ", "- ", "def ", "class ", "function ", "fn ", "int a", "int a(", "type "),
    *("#define ", "#include <", "SELECT ", "RUN ", "import ", "template <", "public static void "),
    *("let ", "enum ", "sub ", "module ", "using ", "@media ", "%q(", "<<A\n", "#", "from "),
]
FEW = ["a", "a ", "\\", "(", "//\n"]
FILLERS = [
    *(*string.punctuation, "a", "0", " ", "\t", "\n", " \n", "a\n", "//\n", "#\n", "\\\n", "/**/"),
    *("a ", "a,", "a.", "a::", "a(", "a=", '\\"', '""', "()", "[]", "{}", "<a>", "1.", "0_", "&a;"),
    *("$a", "@a", "- ", "é", "a b ", "a:", "->", "a|b"),
]


@given(st.lists(st.text(st.sampled_from("a<>&\"'\0\n\r\u202eé\ud800"))))
def test_texts_are_escaped_together_as_each_is_alone(texts: list[str]) -> None:
    assert [*escaped_html(texts)] == [html.escape(str(visible_text(each))) for each in texts]


def test_the_functions_of_c_are_read_in_any_text() -> None:
    rows = source_lines("}\nint main(int a) { return 'a'; }\n", "a.c", "text/x-c", 1)
    assert '<span class="k">int</span> main(<span class="k">int</span> a) {' in rows


@for_each("name", ["a.scala", "a.unknown"])
def test_a_language_whose_lexer_may_take_long_has_no_colours(name: str) -> None:
    assert "<span" not in source_lines("class A { val a = 1 }", name, "text/x-scala", 1)


def test_what_follows_a_long_line_has_no_colours() -> None:
    rows = source_lines(f"a = 1\nb = {'1 ' * 300}\n", "a.py", "text/x-python", 1).split("\n")
    assert ["<span" in each for each in rows] == [True, False, False]


@pytest.mark.deep
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_keeps_a_lexer_busy_between_two_tokens(language: str) -> None:
    find: Any = lexers
    lexer = find.find_lexer_class(language)
    lexer()  # compiles its expressions
    text = ""

    def fail(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"{language} takes long for {text[:40]!r}")

    before = signal.signal(signal.SIGVTALRM, fail)
    try:
        for text in _texts():
            signal.setitimer(signal.ITIMER_VIRTUAL, HOLD_S)
            for _ in coloured_tokens(text, lexer, thread_time() + COLOURS_S):
                signal.setitimer(signal.ITIMER_VIRTUAL, HOLD_S)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _texts() -> Iterator[str]:
    """Yield texts at the bounds of pages in which a part is repeated, behind any beginning."""
    for start in ("", "a", *STARTS):
        for filler in FEW if start in STARTS else FILLERS:
            if "\n" in filler:
                yield start + filler * MANY
            else:
                yield f"{start}{filler * (LINE // len(filler))}!\n" * LINES
