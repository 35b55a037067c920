"""Documents as they are: nothing of them runs, whatever they are called."""

from __future__ import annotations

import pytest

from tests.explorer.shop import opened
from tests.transports.program import Program

pytestmark = pytest.mark.guarantee("pages-show-what-clients-get")

SANDBOX = "sandbox; default-src 'none'"


def test_a_document_is_a_download_that_nothing_opens(program: Program) -> None:
    for uri in ("file:///project/page.html", "file:///project/main.py"):
        answer = opened(program, uri, "raw/")
        assert answer.status == 200
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert answer.headers["content-security-policy"] == SANDBOX
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_picture_is_shown_and_may_run_nothing(program: Program) -> None:
    answer = opened(program, "file:///project/docs/dot.svg", "raw/")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-security-policy"] == SANDBOX


def test_a_name_cannot_end_its_header(program: Program) -> None:
    answer = opened(
        program, "file:///project/%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E.txt", "raw/"
    )
    assert answer.status == 200
    assert '"' not in answer.headers["content-disposition"]


def test_rows_are_exported_whole(program: Program) -> None:
    answer = opened(program, "sqlite://shop/orders/~rows?format=csv&where.id.in=1,2", "raw/")
    assert answer.body.decode().splitlines()[0] == "id,customer_id,status,total,note"
    assert answer.headers["content-disposition"].endswith(".csv")
