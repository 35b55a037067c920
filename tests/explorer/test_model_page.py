"""What a model is given, as a page shows it: exactly what the tool returns."""

from __future__ import annotations

import html
import re

from tests.explorer.shop import opened, text_of
from tests.transports.program import Program, message

ORDERS = "sqlite://shop/orders"


def given(page: bytes) -> list[str]:
    return [
        html.unescape(each)
        for each in re.findall(r'(?s)<pre class="given"[^>]*>(.*?)</pre>', page.decode())
    ]


def test_the_page_has_exactly_the_text_that_the_tool_returns(program: Program) -> None:
    call = message("tools/call", {"name": "read_resource", "arguments": {"uri": ORDERS}})
    blocks = program.session().post(call).json["result"]["content"]
    text = "\n".join(block["text"] for block in blocks)
    page = opened(program, ORDERS, "model/")
    # A browser, too, reads every end of a line as one character.
    assert given(page.body)[0].replace("\r\n", "\n").splitlines() == text.splitlines()
    assert f"{len(text):,} characters" in text_of(page)


def test_the_call_is_shown_as_a_model_makes_it(program: Program) -> None:
    assert f'read_resource {{"uri":"{ORDERS}"}}' in text_of(opened(program, ORDERS, "model/"))


def test_an_error_is_shown_as_the_model_is_told(program: Program) -> None:
    page = opened(program, "sqlite://shop/nothing", "model/")
    assert "The call failed" in text_of(page)
