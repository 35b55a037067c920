"""Trigrams: which documents cannot match a search, by sequences of three letters that they lack.

A document is described by `searchable` text, a search by `Trigrams`, both folded in one way: in
lower case, decomposed, without marks, each run of white space as one space. This is coarser than
any search: whatever `text_match` finds in a document has its trigrams in the folded text of it.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from resource_server.provider.search import SearchRequest

_LENGTH = 3
_MAX_OF_WORD = 12
"""Maximum trigrams of one word: a document with these is unlikely to lack the others."""
_MAX_WORDS = 16
_OTHER = "\x01"
"""Stands for NUL, at which SQLite's tokenizer would end, and for bytes that are no letters."""
_NO_ASCII = re.compile(rb"[^\x01-\x7f]")
_FIRST_MARK, _LAST_MARK = 0x300, 0x1FFFF
_SPACES = re.compile(r"\s+")


class Trigrams(msgspec.Struct, frozen=True):
    """What a document must contain to match: of each group, all trigrams of at least one word."""

    groups: Sequence[Sequence[Sequence[str]]]
    is_ascii: bool
    """Whether documents that are not UTF-8 have them, too, if they match."""

    def expression(self) -> str:
        """Return it in the query language of SQLite's FTS5."""
        groups = (
            " OR ".join(f"({' AND '.join(map(_quoted, word))})" for word in group)
            for group in self.groups
        )
        return " AND ".join(f"({group})" for group in groups)


def of_request(request: SearchRequest) -> Trigrams | None:
    """Return the trigrams of a search of text, and of those in `then`.

    Returns None if it is too short or too vague to have any.
    """
    if request.is_pattern:
        groups = [(found,) for part in literals(request.text) if (found := _of_word(part))]
        return Trigrams(groups[:_MAX_WORDS], is_ascii=False) if groups else None
    words = request.words or (request.text,)
    by_word = [found for word in words if (found := _of_word(word))]
    by_word.sort(key=len, reverse=True)
    if "most" in (request.together, *request.then):
        # A document that matches lacks fewer words than there are in the group.
        size = (max(len(words), 3) + 1) // 2
        groups = [by_word[:size]] if len(by_word) >= size else []
    else:
        groups = [(found,) for found in by_word[:_MAX_WORDS]]
    is_ascii = request.text.isascii() and all(map(str.isascii, words))
    return Trigrams(groups, is_ascii) if groups else None


def searchable(pieces: Iterable[str]) -> str:
    """Return the folded text of a document, which comes in pieces."""
    found = [" "]
    is_spaced = True
    for piece in pieces:
        text = _folded(piece)
        inner = " ".join(text.split())
        if not inner:
            is_spaced = is_spaced or bool(text)
            continue
        if is_spaced or text[0].isspace():
            found.append(" ")
        found.append(inner)
        is_spaced = text[-1].isspace()
    found.append(" ")
    return "".join(found)


def ascii_letters(pieces: Iterable[bytes]) -> str:
    """Return the folded ASCII characters of a document in an unknown encoding."""
    return searchable(_NO_ASCII.sub(b"\x01", piece).decode("ascii") for piece in pieces)


def literals(expression: str) -> Sequence[str]:
    """Return texts that every match of an expression of RE2 contains; none if in doubt."""
    found: list[str] = []
    run = ""
    at, size = 0, len(expression)
    while at < size:
        char = expression[at]
        kept, following = _next(expression, at)
        if char == "|" or following < 0:
            return ()
        if char in "*?" or (char == "{" and following > at + 1):
            run = run[:-1]  # it may be absent
        if kept:
            run += kept
        if not kept or expression[following : following + 1] == "+":
            found.append(run)
            run = ""
        at = following
    return [*found, run]


_REPETITION = re.compile(r"\{\d+(?:,\d*)?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]", re.DOTALL)
_LONG_ESCAPE = re.compile(r"\\(?:x\{[^}]*\}|x..|[pP]\{[^}]*\}|[pP].|\d{1,3}|[^Q])", re.DOTALL)


def _next(expression: str, at: int) -> tuple[str, int]:
    """Return the character that an item of an expression stands for, if any, and its end.

    The end is negative if the item is not understood.
    """
    char = expression[at]
    if char == "(":
        return "", _group_end(expression, at)
    if char == "\\":
        match = _LONG_ESCAPE.match(expression, at)
        if match is None:
            return "", -1
        escaped = match.group()[1:]
        is_plain = len(escaped) == 1 and not (escaped.isalnum() or escaped == "_")
        return (escaped if is_plain else ""), match.end()
    if char == "[":
        match = _CLASS.match(expression, at)
        return "", -1 if match is None else match.end()
    if char == "{":
        match = _REPETITION.match(expression, at)
        return (char, at + 1) if match is None else ("", match.end())
    return ("" if char in "*?+.^$" else char), at + 1


def _group_end(expression: str, at: int) -> int:
    depth = 0
    while 0 <= at < len(expression):
        if expression[at] in "()":
            depth += 1 if expression[at] == "(" else -1
            at += 1
            if not depth:
                return at
        else:
            _, at = _next(expression, at)
    return -1


def _of_word(word: str) -> Sequence[str]:
    folded = _SPACES.sub(" ", _folded(word))
    count = len(folded) - _LENGTH + 1
    step = max(-(-count // _MAX_OF_WORD), 1)
    places = [*range(0, count, step), count - 1] if count > 0 else []
    return [*dict.fromkeys(folded[at : at + _LENGTH] for at in places)]


def _quoted(trigram: str) -> str:
    return '"' + trigram.replace('"', '""') + '"'


def _folded(text: str) -> str:
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFC", text).casefold()
        text = unicodedata.normalize("NFD", text).translate(_marks())
    return text.replace("\0", _OTHER)


@functools.cache
def _marks() -> Mapping[int, None]:
    """Return the marks that letters are composed with, for `str.translate`."""
    codes = range(_FIRST_MARK, _LAST_MARK + 1)
    return dict.fromkeys(code for code in codes if unicodedata.combining(chr(code)))
