"""Cells of Markdown tables, read back by a parser of CommonMark and GitHub's tables."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from resource_server.runtime import markdown
from tests.cases import for_each

CELL = st.text(st.sampled_from("ab1 |`\\\n\r#-<>[](){}!*_~&;:/.\t\ufffd"), max_size=12)


class _Cells(HTMLParser):
    """The text of the cells in each row; `<br>` is the end of a line."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.others: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "br":
            self.handle_data("\n")
        elif tag not in ("table", "thead", "tbody"):
            self.others.add(tag)

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def read_table(text: str) -> list[list[str]]:
    """Return the cells of the only table of a text, without any markup in them."""
    parser = _Cells()
    parser.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))
    assert not parser.others
    return [[shown(cell) for cell in row] for row in parser.rows]


def shown(cell: str) -> str:
    """Return a cell as it is seen: spaces at its ends, and line ends as `\\n`, are no matter."""
    lines = cell.strip().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.strip() for line in lines).strip()


@given(st.lists(CELL, min_size=2, max_size=3), st.lists(CELL, min_size=2, max_size=3))
@example(["a|b", "c"], [r"a\|b", "\\"])
@example(["&amp;", "<b>x</b>"], ["[x](javascript:y)", "![x](y)"])
def test_a_parser_reads_the_cells_that_were_written(header: list[str], row: list[str]) -> None:
    row = [*row, *header][: len(header)]
    text = markdown.table_head(header) + markdown.table_row(row)
    assert read_table(text) == [list(map(shown, header)), list(map(shown, row))]


@for_each("cell", ["a|b", r"a\|b", r"a\\|b"])
def test_a_delimiter_in_a_cell_is_escaped_for_parsers_that_pair_backslashes(cell: str) -> None:
    line = markdown.table_row([cell]).removeprefix("| ").removesuffix(" |\n")
    before = [line[:at] for at, each in enumerate(line) if each == "|"]
    assert all((len(text) - len(text.rstrip("\\"))) % 2 for text in before)


def test_plain_cells_stay_as_they_are() -> None:
    cells = ["snake_case", "C:\\Users", "1.5", "a - b", "x & y"]
    assert markdown.table_row(cells) == "| snake_case | C:\\Users | 1.5 | a - b | x & y |\n"
