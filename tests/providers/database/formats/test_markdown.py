"""Escaping of names and comments, seen in the Markdown of a table."""

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

HOSTILE: Any = st.text(st.sampled_from("ab|`\\\n\r#-<[]*_&; "), max_size=12)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
@example(r"a\|b", r"\\|", "a|b", "c\\")
def test_names_and_comments_never_add_a_line(
    name: str, type: str, default: str, comment: str
) -> None:
    column = Column(name, type, "any", default=default, comment=comment)
    text = schema_markdown(Table(TableName(None, "t"), "table", (column,)))
    _, _, line, *rest = text.strip("\n").split("\n\n")
    assert line.startswith("- ")
    assert not {"\n", "\r"} & {*line}
    assert rest == ["No key: rows have neither order nor address"]


@given(HOSTILE)
def test_a_description_is_always_a_single_paragraph(description: str) -> None:
    table = Table(TableName(None, "t"), "table", (Column("a", "", "any"),))
    text = schema_markdown(table, description=description)
    shown = text.split("\n\nTable\n\n")[1].split("- `a`")[0]
    for line in shown.strip("\n").split("\n"):
        assert not re.match(r"\s*(#{1,6}(\s|$)|[-<`*])", line)
    assert "\n\n" not in shown.strip("\n")
