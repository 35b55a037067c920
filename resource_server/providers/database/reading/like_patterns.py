"""LIKE patterns: of a searched text, and as clients write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from resource_server.providers.database.engines.reflection import WordIndex, quoted

LIKE_ESCAPE = "!"
"""Escapes `%`, `_` and itself in a LIKE pattern."""

MAX_LENGTH = 200
"""Maximum characters of the text in a LIKE pattern; SQLite allows patterns of 1,000 bytes."""
_HAS_TRIGRAMS = re.compile(r"(?=.*\w{3})\D{3,}", re.DOTALL)
"""Text that an index of trigrams finds. Digits may be those of a number, which is spelt otherwise
in it."""
_INDEXED_WORD = re.compile(r"[^\W_]{3,}")
"""Part of a word that indexes of words hold: MariaDB leaves out what has fewer characters."""
_MAX_CONDITIONS = 75
"""Maximum comparisons of a search in one statement; SQLite allows expressions 200 deep."""
_SPECIAL = re.compile(f"[%_{LIKE_ESCAPE}]")


def like_pattern(text: str) -> str | None:
    """Return a LIKE pattern that matches every text that contains `text`, ignoring case.

    The pattern has only the longest part that all engines compare alike, so it may match more.
    Returns None if there is no such part.
    """
    longest = _alike_part(text)
    return f"%{_SPECIAL.sub(_escaped, longest)}%" if longest else None


def _alike_part(text: str) -> str:
    alike = "".join(c if _is_alike(c) else "\0" for c in text)
    return max(alike.split("\0"), key=len)[:MAX_LENGTH]


def trigram_query(words: Sequence[str], columns: Sequence[str], *, has_every: bool) -> str | None:
    """Return the FTS5 query for rows that may contain every word, or any, in some of the columns.

    Returns None if a table with trigrams may miss one.
    """
    parts = [part for part in map(_alike_part, words) if _HAS_TRIGRAMS.fullmatch(part)]
    if not parts or (len(parts) < len(words) and not has_every):
        return None
    return _fts5_query(list(map(quoted, parts)), columns, has_every=has_every)


def _fts5_query(phrases: Sequence[str], columns: Sequence[str], *, has_every: bool) -> str:
    names = " ".join(map(quoted, columns))
    return f"{{{names}}} : ({(' AND ' if has_every else ' OR ').join(phrases)})"


def word_query(words: Sequence[str], index: WordIndex, *, has_every: bool) -> str | None:
    """Return the full-text query for rows with words that begin like every word, or any.

    Returns None if a word has nothing that is certain to be indexed.
    """
    if not all(map(_INDEXED_WORD.search, words)):
        return None
    if index.table:
        phrases = [quoted(word) + " *" for word in words]
        return _fts5_query(phrases, index.columns, has_every=has_every)
    if index.configuration:
        held = [re.sub(r"['\\]", r"\g<0>\g<0>", word).replace("\0", " ") for word in words]
        return (" & " if has_every else " | ").join([f"'{word}':*" for word in held])
    each = [" ".join(f"+{part}*" for part in _INDEXED_WORD.findall(word)) for word in words]
    return " ".join(each) if has_every else " ".join(f"({parts})" for parts in each)


def like_patterns(words: Sequence[str], columns: int, *, has_every: bool) -> Sequence[str] | None:
    """Return LIKE patterns for texts that contain every word, or any, in one of some columns.

    As `like_pattern`. Returns None if they would match anything, or would be too many.
    """
    found = [like_pattern(word) for word in sorted(words, key=len, reverse=True)]
    most = _MAX_CONDITIONS // max(columns, 1)
    if has_every:
        return [pattern for pattern in found if pattern is not None][:most] or None
    patterns = [pattern for pattern in found if pattern is not None]
    return patterns if len(patterns) == len(found) <= most else None


def _is_alike(character: str) -> bool:
    # SQLite folds the case of ASCII letters only, other engines by their locale.
    if character.isascii():
        return character != "\0"
    is_surrogate = "\ud800" <= character <= "\udfff"
    return character == character.casefold() == character.upper() and not is_surrogate


def _escaped(found: re.Match[str]) -> str:
    return LIKE_ESCAPE + found[0]


def escaped_pattern(pattern: str) -> str:
    """Return a client's LIKE pattern, whose escape is a backslash, with the escape of statements.

    Raises:
        ValueError: it ends with a backslash.
    """
    found: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            character = next(characters, "")
            if not character:
                raise ValueError("a pattern ends with its escape")
            found.append(_SPECIAL.sub(_escaped, character))
        else:
            found.append(LIKE_ESCAPE * 2 if character == LIKE_ESCAPE else character)
    return "".join(found)
