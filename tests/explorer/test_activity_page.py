"""The page of the last requests, for those who may see it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.explorer.shop import Elements, fetched, opened, text_of
from tests.transports.http.auth.test_page_sign_in import cookie, sign_in
from tests.transports.program import Program, modern, request, running

ADA, EVE = (f"token-of-{name}-0123456789abcdef" for name in ("ada", "eve"))
MANIFEST = f"""
roots: {{docs: {{path: docs}}}}
audit: {{file: audit.jsonl, access: {{scopes: [audit]}}}}
http: {{auth: {{tokens: [
  {{token: {ADA}, subject: "<b>ada</b>", scopes: [read]}},
  {{token: {EVE}, subject: eve, scopes: [audit]}}
]}}}}
"""
RECENT = "activity://server/recent"


@contextmanager
def recorded(place: Path) -> Generator[Program]:
    """Serve a document with a record of reads, whose last ones Eve may see."""
    (place / "docs").mkdir()
    (place / "docs" / "a.txt").write_text("text\n")
    file = place / "mcp-resources.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    with running(file) as started:
        yield started


@pytest.fixture
def guarded(tmp_path: Path) -> Generator[Program]:
    with recorded(tmp_path) as started:
        yield started


def read(program: Program, uri: str) -> None:
    program.ask(modern("resources/read", {"uri": uri}, authorization=f"Bearer {ADA}"))


def test_the_table_has_the_requests_of_all_newest_first(guarded: Program) -> None:
    read(guarded, "file:///docs/a.txt")
    read(guarded, "file:///docs/none%3Cscript%3E")
    page = opened(guarded, RECENT, cookie=cookie(sign_in(guarded, EVE)))
    assert page.status == 200
    text = text_of(page)
    assert "Last requests" in text
    first, second = (each for each in text.split("resources/read")[:0:-1][::-1][:2])
    assert "not found (-32602)" in first
    assert "file:///docs/a.txt served" in " ".join(second.split())
    assert "<b>ada</b>" in text
    assert "tests 0 · 127.0.0.1" in text
    assert b"<b>ada" not in page.body
    assert b"<script>" not in page.body
    assert any(each.endswith("/docs/a.txt") for each in Elements(page).links())


@pytest.mark.guarantee("record-is-not-served")
def test_without_the_scopes_there_is_no_such_page(guarded: Program) -> None:
    ada = cookie(sign_in(guarded, ADA))
    assert opened(guarded, RECENT, cookie=ada).status == 404
    assert "activity" not in text_of(fetched(guarded, "/explore/", cookie=ada)).lower()
    eve = cookie(sign_in(guarded, EVE))
    assert "Activity" in text_of(fetched(guarded, "/explore/", cookie=eve))
    assert opened(guarded, "activity://server", cookie=eve).status == 200


def test_pages_lead_to_older_requests(guarded: Program) -> None:
    for _ in range(5):
        read(guarded, "file:///docs/a.txt")
    eve = cookie(sign_in(guarded, EVE))
    page = opened(guarded, f"{RECENT}?limit=3", cookie=eve)
    assert len(Elements(page).named("time")) == 3
    [older] = [each["href"] for each in Elements(page).named("a") if each.get("rel") == "next"]
    older_page = fetched(guarded, older or "", cookie=eve)
    assert len(Elements(older_page).named("time")) == 2
    assert "Newest" in text_of(older_page)
    assert opened(guarded, f"{RECENT}?limit=x", cookie=eve).status == 400


def test_the_page_follows_the_requests_of_others_and_not_its_own(guarded: Program) -> None:
    eve = cookie(sign_in(guarded, EVE))
    with guarded.line() as line:
        path = "/explore/live/activity:%2F%2Fserver/recent"
        line.ask(request("GET", path=path, cookie=eve))
        assert line.event().name == "subscribed"
        opened(guarded, RECENT, cookie=eve)
        read(guarded, "file:///docs/a.txt")
        assert line.event().name == "changed"
