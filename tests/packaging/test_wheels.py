"""The extras: each is in the table of platforms, in the docs, and in the image."""

from __future__ import annotations

import re

from tests.cases import for_each
from tests.packaging import wheels
from tests.packaging.facts import ROOT

DOCS = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md")))


def test_every_extra_has_a_row_in_the_table_of_platforms() -> None:
    page = wheels.PAGE.read_text("utf-8")
    table = page.partition(f"<!-- {wheels.SECTION} -->")[2].partition("<!-- end")[0]
    rows = [line.strip("| ").split(" | ") for line in table.strip().splitlines()]
    assert [row[0] for row in rows[2:]] == [
        "the server itself",
        *(f"`{extra}`" for extra in wheels.extras()),
    ]
    assert {len(row) for row in rows[2:]} == {1 + len(wheels.PLATFORMS)}


@for_each("extra", wheels.extras())
def test_the_docs_name_every_extra(extra: str) -> None:
    table = re.search(rf"<!-- {wheels.SECTION} -->.*?<!-- end", DOCS, re.DOTALL)
    assert table is not None
    prose = DOCS.replace(table[0], "")
    in_command = rf"\[(?:\w+,)*{extra}(?:,\w+)*\]"
    in_sentence = rf"\bextras? (?:`\w+`,? (?:and )?)*`{extra}`"
    assert re.search(f"{in_command}|{in_sentence}", prose), extra


def test_the_image_has_every_extra() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert f"'.[{','.join(wheels.extras())}]'" in dockerfile
