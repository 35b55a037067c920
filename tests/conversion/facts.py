"""Facts that are planted in documents, and whether a text has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

_RULE = re.compile(r":?-{3,}:?")
_ESCAPE = re.compile(r"\\([\W_])")


@dataclass(frozen=True)
class Text:
    """Words that are there, in one paragraph."""

    words: str

    def is_in(self, text: str) -> bool:
        """Return whether a text has it."""
        return _plain(self.words) in _plain(text)


@dataclass(frozen=True)
class Absent:
    """Words that a reader of the document does not see."""

    words: str

    def is_in(self, text: str) -> bool:
        """Return whether a text is right about it."""
        return bool(text.strip()) and _plain(self.words) not in _plain(text)


@dataclass(frozen=True)
class Ordered:
    """Words that follow each other."""

    words: tuple[str, ...]

    def is_in(self, text: str) -> bool:
        """Return whether a text has them in their order."""
        return bool(re.search(".*".join(map(re.escape, self.words)), text, re.DOTALL))


@dataclass(frozen=True)
class Heading:
    """A heading."""

    words: str

    def is_in(self, text: str) -> bool:
        """Return whether a text has it, marked as one."""
        return bool(re.search(rf"^#+ \W*{re.escape(self.words)}", text, re.MULTILINE))


@dataclass(frozen=True)
class Link:
    """A link, with its words where the document has them."""

    target: str
    words: str = ""

    def is_in(self, text: str) -> bool:
        """Return whether a text has it."""
        return f"[{self.words}]({self.target}" in text if self.words else self.target in text


@dataclass(frozen=True)
class Placed:
    """Words on a page, slide or sheet, or in a cell or chapter, that is named before them."""

    place: str
    words: str

    def is_in(self, text: str) -> bool:
        """Return whether a text names the place, and no other one of its kind in between."""
        kind = self.place.rpartition(" ")[0] or self.place
        before = text.partition(self.words)[0]
        named = list(re.finditer(rf"\b{re.escape(kind)}\b[^\n]*", before, re.IGNORECASE))
        return self.words in text and bool(named) and _begins_with(named[-1][0], self.place)


@dataclass(frozen=True)
class Cell:
    """A cell of a table, by the words in its row and the name of its column."""

    row: str
    column: str
    value: str

    def is_in(self, text: str) -> bool:
        """Return whether a text has it in a table, below its header."""
        for table in _tables(text):
            if self.column not in table[0]:
                continue
            at = table[0].index(self.column)
            if any(self.row in row and row[at : at + 1] == [self.value] for row in table[1:]):
                return True
        return False


Fact: TypeAlias = Text | Absent | Ordered | Heading | Link | Placed | Cell


def _begins_with(line: str, place: str) -> bool:
    pattern = re.sub(r"\\ (?=[0-9]+$)", r"\\D{1,12}", re.escape(place))  # `Slide number: 2`
    return bool(re.match(rf"{pattern}\b", line, re.IGNORECASE))


def _plain(text: str) -> str:
    return " ".join(_ESCAPE.sub(r"\1", text.replace("**", "")).split())


def _tables(text: str) -> Iterator[Sequence[Sequence[str]]]:
    """Yield the tables of Markdown, each as rows of cells; the first row is the header."""
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.strip().startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
            if not all(_RULE.fullmatch(cell.strip()) for cell in cells):
                table.append([_plain(cell) for cell in cells])
        elif table:
            yield table
            table = []
