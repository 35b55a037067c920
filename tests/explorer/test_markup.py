"""Texts of documents as HTML."""

from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as st

from resource_server.explorer.markup import escaped_html
from resource_server.explorer.page import visible_text


@given(st.lists(st.text(st.sampled_from("a<>&\"'\0\n\r\u202eé\ud800"))))
def test_texts_are_escaped_together_as_each_is_alone(texts: list[str]) -> None:
    assert [*escaped_html(texts)] == [html.escape(str(visible_text(each))) for each in texts]
