"""Escaping of names, comments and DDL, seen in the Markdown of a table."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from resource_server.providers.database.engines.reflection import (
    Column,
    Table,
    TableName,
)
from resource_server.providers.database.formats.table_schema import schema_markdown
from tests.cases import for_each


def fenced(text: str) -> str:
    """Return the content of the last code block, as CommonMark finds its end."""
    lines = text.split("## DDL\n\n", 1)[1].split("\n")
    fence = lines[0].removesuffix("sql")
    assert set(fence) == {"`"}
    closing = [at for at, line in enumerate(lines[1:], 1) if _closes(line, fence)]
    assert lines[closing[0] + 1 :] == [""]
    return "\n".join(lines[1 : closing[0]])


def _closes(line: str, fence: str) -> bool:
    mark = line.strip(" \t")
    return bool(mark) and set(mark) == {"`"} and len(mark) >= len(fence)


@for_each("ddl", ["a\n```\n# x", "````", "x\n`````sql\n```", "CREATE\r\n  ```  \r\nx", "~~~\nx"])
def test_ddl_never_breaks_out_of_its_block(ddl: str) -> None:
    assert fenced(schema_markdown(with_ddl(ddl))) == ddl


@given(st.text(st.sampled_from("`~ \n#sqlx"), min_size=1))
def test_any_ddl_is_verbatim_in_its_block(ddl: str) -> None:
    assert fenced(schema_markdown(with_ddl(ddl))) == ddl.strip("\r\n")


def with_ddl(ddl: str) -> Table:
    return Table(TableName(None, "t"), "table", (Column("a", "", "any"),), ddl=ddl)


HOSTILE: Any = st.text(st.sampled_from("ab|`\\\n\r#-<[]*_&; "), max_size=12)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
@example(r"a\|b", r"\\|", "a|b", "c\\")
def test_names_and_comments_never_add_a_line_or_a_cell(
    name: str, type: str, default: str, comment: str
) -> None:
    column = Column(name, type, "any", default=default, comment=comment)
    text = schema_markdown(Table(TableName(None, "t"), "table", (column,)))
    lines = text.split("## Columns\n\n")[1].split("\n\n")[0].split("\n")
    assert len(lines) == 3
    assert "\r" not in lines[2]
    assert _unescaped_bars(lines[2]) == 7


def _unescaped_bars(line: str) -> int:
    """Count bars as cmark-gfm does: a backslash escapes punctuation, including itself."""
    bars, at = 0, 0
    while at < len(line):
        if line[at] == "\\" and line[at + 1 : at + 2] in set("\\|`<[*_&#-;]"):
            at += 2
            continue
        bars += line[at] == "|"
        at += 1
    return bars


@given(HOSTILE)
def test_a_description_is_always_a_single_paragraph(description: str) -> None:
    text = schema_markdown(with_ddl(""), description=description)
    shown = text.split("Table `t`\n\n")[1].split("## Columns")[0]
    for line in shown.strip("\n").split("\n"):
        assert not re.match(r"\s*(#{1,6}(\s|$)|[-<`*])", line)
    assert "\n\n" not in shown.strip("\n")
