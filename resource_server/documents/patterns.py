"""Gitignore patterns: which line of a list decides for a path, byte for byte as in git.

Git compares bytes, so patterns and paths here have one character per byte (`bytewise`): `?` does
not match `é` in UTF-8. Most patterns are names, suffixes or paths and cost one dictionary lookup;
the rest become regular expressions that match in polynomial time, whatever the pattern.

Source: gitignore(5), and `dir.c` and `wildmatch.c` of git.
"""

from __future__ import annotations

import functools
import os
import re
import string
from collections.abc import Iterable, Mapping, Sequence

import msgspec

_SPECIAL = re.compile(r"[*?\[\\]")
_LINE = 4
_STAR, _SLASH, _ANY_DEPTH, _ANY_PATH = "*", "/", "**/", "**"
_SKIPS = {_ANY_DEPTH: "(?:.*?/)??", _ANY_PATH: ".*?"}

_CLASSES = {
    "alnum": string.digits + string.ascii_letters,
    "alpha": string.ascii_letters,
    "blank": " \t",
    "cntrl": "".join(map(chr, range(32))) + "\x7f",
    "digit": string.digits,
    "graph": string.digits + string.ascii_letters + string.punctuation,
    "lower": string.ascii_lowercase,
    "print": " " + string.digits + string.ascii_letters + string.punctuation,
    "punct": string.punctuation,
    "space": " \t\n\r",
    "upper": string.ascii_uppercase,
    "xdigit": string.hexdigits,
}


def bytewise(path: str) -> str:
    """Return a path from `os.fsdecode` as a string with one character per byte."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


class UnusablePatternError(ValueError):
    """A glob that nothing can match: an open bracket, an unknown class, a lone backslash."""


class TooComplexError(ValueError):
    """The regular expressions are longer than allowed."""


class Pattern(msgspec.Struct, frozen=True):
    """One parsed line; `glob` is without `!` and without a slash at either end."""

    line: str
    """As written, without trailing spaces."""
    glob: str
    negated: bool
    directory_only: bool
    anchored: bool
    """Compared with the whole path, not only with its last segment."""

    @property
    def is_literal(self) -> bool:
        """Whether it is a name or path without wildcards."""
        return not _SPECIAL.search(self.glob)

    @classmethod
    def parse(cls, line: str) -> Pattern | None:
        """Parse a line without its line end; None for blank lines and comments."""
        if not line or line.startswith("#"):
            return None
        line = glob = _without_trailing_spaces(line)
        negated = glob.startswith("!")
        glob = glob[negated:]
        directory_only = glob.endswith("/")
        glob = glob.removesuffix("/")
        anchored = "/" in glob
        glob = glob.removeprefix("/")
        return cls(line, bytewise(glob), negated, directory_only, anchored) if glob else None


def _without_trailing_spaces(line: str) -> str:
    kept = line.rstrip(" ")
    escapes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if escapes % 2 and kept != line else kept


class _Expressions:
    """Globs as regular expressions; a single alternation of all rules out most subjects."""

    def __init__(self, expressions: Mapping[int, str]) -> None:
        self.last = max(expressions, default=-1)
        self._expressions = expressions
        self._any = re.compile("|".join(expressions.values()), re.DOTALL)

    @functools.cached_property
    def _each(self) -> Sequence[tuple[int, re.Pattern[str]]]:
        # Compiled on need: few names of most folders match any.
        return [
            (index, re.compile(self._expressions[index], re.DOTALL))
            for index in sorted(self._expressions, reverse=True)
        ]

    def last_match(self, subject: str, found: int) -> int:
        """Return the index of the last match, or `found` if that is later."""
        if self._any.fullmatch(subject):
            for index, expression in self._each:
                if index < found:
                    break
                if expression.fullmatch(subject):
                    return index
        return found


class _Globs:
    """Patterns for directories only, or for anything, each in its fastest lookup structure."""

    __slots__ = ("_by_name", "_by_path", "_names", "_paths", "_suffixes")

    def __init__(
        self, patterns: Iterable[tuple[int, Pattern]], expressions: Mapping[int, str]
    ) -> None:
        # A later line replaces an earlier one: the last match decides.
        self._names: dict[str, int] = {}
        self._suffixes: dict[str, int] = {}
        self._paths: dict[str, int] = {}
        by_name: dict[int, str] = {}
        by_path: dict[int, str] = {}
        for index, pattern in patterns:
            glob = pattern.glob
            if not _SPECIAL.search(glob):
                (self._paths if pattern.anchored else self._names)[glob] = index
            elif glob.startswith("*.") and not pattern.anchored and not _SPECIAL.search(glob, 1):
                self._suffixes[glob[1:]] = index
            else:
                (by_path if pattern.anchored else by_name)[index] = expressions[index]
        self._by_name = _Expressions(by_name)
        self._by_path = _Expressions(by_path)

    def last_match(self, path: str, name: str) -> int:
        found = self._names.get(name, -1)
        if self._suffixes:
            dot = name.find(".")
            while dot >= 0:
                index = self._suffixes.get(name[dot:], -1)
                found = index if index > found else found
                dot = name.find(".", dot + 1)
        if self._paths:
            index = self._paths.get(path, -1)
            found = index if index > found else found
        if self._by_name.last > found:
            found = self._by_name.last_match(name, found)
        if self._by_path.last > found:
            found = self._by_path.last_match(path, found)
        return found


class Patterns:
    """A list of gitignore lines, the last match of which decides."""

    __slots__ = ("_any", "_directories", "lines", "unusable")

    def __init__(self, lines: Iterable[str], *, max_length: int | None = None) -> None:
        """Parse the lines; `max_length` bounds the characters of their regular expressions.

        Each line counts for `_LINE` characters more.

        Raises:
            TooComplexError: over `max_length`, before anything is compiled.
        """
        self.lines: dict[int, Pattern] = {}
        """The patterns by line index."""
        self.unusable: list[int] = []
        """Indices of lines that can match nothing; git skips them, too."""
        expressions: dict[int, str] = {}
        length = 0
        for index, line in enumerate(lines):
            pattern = Pattern.parse(line)
            if pattern is None:
                continue
            length += _LINE
            try:
                if _SPECIAL.search(pattern.glob):
                    expression = expressions[index] = _translate(pattern)
                    length += len(expression)
                self.lines[index] = pattern
            except UnusablePatternError:
                self.unusable.append(index)
            if max_length is not None and length > max_length:
                raise TooComplexError
        every = self.lines.items()
        self._any = _Globs(((i, p) for i, p in every if not p.directory_only), expressions)
        self._directories = _Globs(((i, p) for i, p in every if p.directory_only), expressions)

    def last_match(self, path: str, name: str, *, is_directory: bool) -> int:
        """Return the index of the last line that matches this exact path, or -1.

        `path` is `bytewise` and relative to the directory of the patterns; `name` is its last
        segment. Entries below a matching directory do not match: callers do not descend there.
        """
        found = self._any.last_match(path, name)
        if is_directory:
            found = max(found, self._directories.last_match(path, name))
        return found


def _translate(pattern: Pattern) -> str:
    """Return the regular expression for a whole path, or for a name if not anchored.

    Raises:
        UnusablePatternError: nothing can match.
    """
    if not pattern.anchored:
        return _piece(_tokens(pattern.glob, 0, anchored=False))
    # Git compares the part before the first special character separately, so to git the rest of
    # `a**/b` begins with `**/`.
    special = _SPECIAL.search(pattern.glob)
    start = special.start() if special else len(pattern.glob)
    skips, pieces = [""], [list[str]()]
    for part in _tokens(pattern.glob, start, anchored=True):
        if part in _SKIPS:
            skips.append(_SKIPS[part])
            pieces.append([])
        else:
            pieces[-1].append(part)
    *parts, last = [skip + _piece(piece) for skip, piece in zip(skips, pieces, strict=True)]
    # The first match of a part between two `**` is as good as any other, so backtracking is not
    # needed: atomic groups keep hostile patterns polynomial.
    return re.escape(pattern.glob[:start]) + "".join(f"(?>{part})" for part in parts) + last


def _piece(tokens: Iterable[str]) -> str:
    """Return the expression of a part between two `**`."""
    segments: list[list[str]] = [[""]]
    for part in tokens:
        if part == _SLASH:
            segments.append([""])
        elif part == _STAR:
            segments[-1].append("")
        else:
            segments[-1][-1] += part
    return "/".join(map(_segment, segments))


def _segment(chunks: list[str]) -> str:
    """Return the expression of one segment, given the chunks between its stars."""
    if len(chunks) == 1:
        return chunks[0]
    first, *middle, last = chunks
    return first + "".join(f"(?>[^/]*?{chunk})" for chunk in middle if chunk) + "[^/]*" + last


def _tokens(glob: str, start: int, *, anchored: bool) -> Iterable[str]:
    """Yield `_STAR`, `_SLASH`, a key of `_SKIPS`, or the expression of one character."""
    at = start
    while at < len(glob):
        part, end = _SLASH, at + 1
        match glob[at]:
            case "/":
                pass
            case "*":
                end = at + len(glob[at:]) - len(glob[at:].lstrip("*"))
                part = _STAR
                if anchored and end - at > 1 and (at == start or glob[at - 1] == "/"):
                    part = _stars_across(glob, end)
                    end += part == _ANY_DEPTH
            case "?":
                part = "[^/]"
            case "[":
                part, end = _bracket(glob, at + 1)
            case "\\":
                part, end = re.escape(_at(glob, at + 1)), at + 2
            case other:
                part = re.escape(other)
        yield part
        at = end


def _stars_across(glob: str, end: int) -> str:
    """Return the token for two or more stars at the start of a segment."""
    if glob.startswith("/", end):
        return _ANY_DEPTH
    return _ANY_PATH if end == len(glob) or glob.startswith("\\/", end) else _STAR


def _bracket(glob: str, at: int) -> tuple[str, int]:
    """Return the expression of the set that opened before `at`, and the index after it."""
    negated = _at(glob, at) in "!^"
    at += negated
    found = {"/"} if negated else set[str]()
    begin, previous = at, ""
    while _at(glob, at) != "]" or at == begin:
        members, last, at = _member(glob, at, previous)
        found.update(members)
        previous = last
    if not negated:
        found.discard("/")
    if not found:
        raise UnusablePatternError
    members = "".join(f"\\x{ord(char):02x}" for char in sorted(found))
    return f"[{'^' * negated}{members}]", at + 1


def _member(glob: str, at: int, previous: str) -> tuple[Iterable[str], str, int]:
    """Return the characters of a set member, the possible start of a range, and the end index."""
    char = glob[at]
    if char == "\\":
        return _at(glob, at + 1), glob[at + 1], at + 2
    if char == "-" and previous and _at(glob, at + 1) != "]":
        at += 1 + (glob[at + 1] == "\\")
        return map(chr, range(ord(previous), ord(_at(glob, at)) + 1)), "", at + 1
    if char == "[" and _at(glob, at + 1) == ":":
        end = glob.find("]", at + 2)
        if end < 0:
            raise UnusablePatternError
        if end > at + 2 and glob[end - 1] == ":":
            name = glob[at + 2 : end - 1]
            if name not in _CLASSES:
                raise UnusablePatternError
            return _CLASSES[name], "", end + 1
    return char, char, at + 1


def _at(glob: str, at: int) -> str:
    if at >= len(glob):
        raise UnusablePatternError
    return glob[at]
