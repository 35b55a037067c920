"""Signing in to pages: by a token, and what the cookie is worth afterwards."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.cases import for_each
from tests.explorer.shop import fetched, opened, text_of
from tests.transports.program import Answer, Program, request, running

CLERK, BOSS = "clerk-0123456789abcdef", "boss-0123456789abcdef"
MANIFEST = f"""
server: {{title: Tea shop}}
roots:
  project: {{path: project}}
  wages: {{path: project, uri: "file:///wages/", access: {{scopes: [hr]}}}}
http: {{auth: {{tokens: [{{token: {CLERK}, scopes: []}}, {{token: {BOSS}, scopes: [hr]}}]}}}}
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[Program]:
    """A server that requires tokens."""
    place = tmp_path_factory.mktemp("guarded")
    (place / "project").mkdir()
    file = place / "mcp-resources.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    with running(file) as started:
        yield started


def sign_in(program: Program, token: str, to: str = "") -> Answer:
    return program.ask(
        request(
            "POST",
            urlencode({"token": token}).encode(),
            path="/explore/sign-in" + (f"?{urlencode({'to': to})}" if to else ""),
            content_type="application/x-www-form-urlencoded",
            sec_fetch_site="same-origin",
        )
    )


def cookie(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def test_without_signing_in_nothing_of_the_manifest_is_shown(guarded: Program) -> None:
    answer = opened(guarded, "file:///project")
    assert (answer.status, answer.body) == (303, b"")
    page = fetched(guarded, answer.headers["location"])
    assert "Sign in" in text_of(page)
    assert not re.search("Tea shop|wages", text_of(page))


def test_a_token_signs_in_and_leads_back_to_the_page(guarded: Program) -> None:
    asked = opened(guarded, "file:///project").headers["location"]
    answer = sign_in(guarded, CLERK, "/explore/file:%2F%2F/project")
    assert "to=%2Fexplore%2Ffile" in asked
    assert (answer.status, answer.headers["location"]) == (303, "/explore/file:%2F%2F/project")
    assert "HttpOnly; SameSite=Lax" in answer.headers["set-cookie"]
    assert CLERK not in answer.headers["set-cookie"]
    assert opened(guarded, "file:///project", cookie=cookie(answer)).status == 200


def test_a_cookie_has_the_scopes_of_its_token(guarded: Program) -> None:
    clerk, boss = (cookie(sign_in(guarded, token)) for token in (CLERK, BOSS))
    assert "wages" not in text_of(fetched(guarded, "/explore/", cookie=clerk))
    assert opened(guarded, "file:///wages", cookie=clerk).status == 404
    assert opened(guarded, "file:///wages", cookie=boss).status == 200


def test_a_cookie_is_worth_nothing_at_the_endpoint(guarded: Program) -> None:
    asked = request(
        "POST", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, cookie=cookie(sign_in(guarded, BOSS))
    )
    assert guarded.ask(asked).status == 401


def test_a_wrong_token_is_refused(guarded: Program) -> None:
    for token in ("wrong-0123456789abcdef", "", "a b", "é" * 20, "a" * 20000):
        answer = sign_in(guarded, token)
        assert answer.status == 403
        assert "set-cookie" not in answer.headers


def test_a_changed_cookie_is_worth_nothing(guarded: Program) -> None:
    value = cookie(sign_in(guarded, CLERK))
    name, _, contents = value.partition("=")
    encoded, _, signature = contents.rpartition(".")
    boss = cookie(sign_in(guarded, BOSS)).partition("=")[2]
    for forged in (
        f"{encoded}.",
        encoded,
        f".{signature}",
        f"{boss.rpartition('.')[0]}.{signature}",
        f"{encoded[:-4]}AAAA.{signature}",
        f"{encoded}.{'é' * 44}",
        "a" * 9000,
        "",
    ):
        assert opened(guarded, "file:///project", cookie=f"{name}={forged}").status == 303
    assert opened(guarded, "file:///project", cookie=f"explorer-1={contents}").status == 303


def test_signing_out_removes_the_cookie(guarded: Program) -> None:
    answer = guarded.ask(
        request(
            "POST",
            path="/explore/sign-out",
            sec_fetch_site="same-origin",
            cookie=cookie(sign_in(guarded, CLERK)),
        )
    )
    assert answer.status == 303
    assert "Max-Age=0" in answer.headers["set-cookie"]


@for_each(
    "to",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "/mcp", "/explore/\r\nx: y"],
)
def test_signing_in_leads_to_no_other_place(guarded: Program, to: str) -> None:
    assert sign_in(guarded, CLERK, to).headers["location"] == "/explore/"


def test_a_foreign_page_cannot_sign_anybody_in(guarded: Program) -> None:
    body = urlencode({"token": CLERK}).encode()
    answer = guarded.ask(
        request("POST", body, path="/explore/sign-in", sec_fetch_site="cross-site")
    )
    assert answer.status == 403


def test_a_cookie_of_another_server_is_worth_nothing(guarded: Program, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    file = tmp_path / "mcp-resources.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    with running(file) as other:
        value = cookie(sign_in(other, BOSS)).partition("=")[2]
    assert (
        opened(guarded, "file:///project", cookie=f"explorer-{guarded.port}={value}").status == 303
    )
