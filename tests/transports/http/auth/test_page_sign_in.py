"""Signing in to pages: by a token, and what the cookie is worth afterwards."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.cases import for_each
from tests.explorer.pictures import CHROMIUM
from tests.explorer.shop import fetched, opened, text_of
from tests.transports.program import Answer, Program, request, running

CLERK, BOSS, ROYAL = (f"{name}-0123456789abcdef" for name in ("clerk", "boss", "royal"))
SCOPES = [f"scope-{number}" for number in range(400)]
MANIFEST = f"""
roots:
  project: {{path: project}}
  wages: {{path: project, uri: "file:///wages/", access: {{scopes: [hr]}}}}
server: {{title: Tea shop, key: "a key of thirty-two or more characters"}}
http: {{auth: {{tokens: [
  {{token: {CLERK}, scopes: []}},
  {{token: {BOSS}, scopes: [hr]}},
  {{token: {ROYAL}, scopes: {SCOPES}}}
]}}}}
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


def sign_in(program: Program, token: str, to: str = "", **headers: str) -> Answer:
    return program.ask(
        request(
            "POST",
            urlencode({"token": token}).encode(),
            path="/explore/sign-in" + (f"?{urlencode({'to': to})}" if to else ""),
            content_type="application/x-www-form-urlencoded",
            sec_fetch_site="same-origin",
            **headers,
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
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/mcp",
        "/explore/\r\nx: y",
        "/explore/../mcp",
        "/explore/%2e%2E//evil.example/",
        "/explore/x/.%2E/../mcp?a=b",
    ],
)
def test_signing_in_leads_to_no_other_place(guarded: Program, to: str) -> None:
    assert sign_in(guarded, CLERK, to).headers["location"] == "/explore/"


def test_a_foreign_page_cannot_sign_anybody_in(guarded: Program) -> None:
    body = urlencode({"token": CLERK}).encode()
    answer = guarded.ask(
        request("POST", body, path="/explore/sign-in", sec_fetch_site="cross-site")
    )
    assert answer.status == 403


def test_a_cookie_is_worth_nothing_under_another_key_or_other_rights(
    guarded: Program, tmp_path: Path
) -> None:
    value = cookie(sign_in(guarded, BOSS))
    (tmp_path / "project").mkdir()
    file = tmp_path / "mcp-resources.yaml"
    for changed, status in (
        (MANIFEST, 200),
        (MANIFEST.replace("a key of", "another key of"), 303),
        (MANIFEST.replace(f"{BOSS}, scopes: [hr]", f"{BOSS}, scopes: []"), 303),
        (MANIFEST.replace("{auth: {", "{auth: {scopes: [hr], "), 303),
        (MANIFEST.replace(BOSS, f"{BOSS}0"), 303),
    ):
        file.write_text(changed, encoding="utf-8")
        with running(file) as other:
            assert fetched(other, "/explore/", cookie=value).status == status, status


@pytest.mark.guarantee("rows-are-the-callers")
def test_a_page_shows_the_rows_of_the_person_who_has_signed_in(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as made:
        made.execute("create table orders (id integer primary key, owner text)")
        made.execute("insert into orders values (1, 'clerk-1'), (2, 'boss-2')")
        made.commit()
    (tmp_path / "mcp-resources.yaml").write_text(f"""
databases:
  shop: {{url: "sqlite:///shop.db", tables: {{orders: {{where: "owner = :claims.a.b"}}}}}}
http: {{auth: {{tokens: [
  {{token: {CLERK}, claims: {{a: {{b: clerk-1}}, more: {SCOPES * 2}}}}},
  {{token: {BOSS}, claims: {{a: {{b: boss-2}}}}}},
  {ROYAL}
]}}}}
""")
    with running(tmp_path / "mcp-resources.yaml") as program:
        for token, shown in ((CLERK, {"clerk-1"}), (BOSS, {"boss-2"}), (ROYAL, set[str]())):
            value = cookie(sign_in(program, token))
            page = opened(program, "sqlite://shop/orders/~rows", cookie=value)
            assert page.status == 200
            assert set(re.findall(r"clerk-1|boss-2", text_of(page))) == shown
            assert "no-store" in page.headers["cache-control"]


def test_a_token_with_too_many_scopes_for_a_cookie_is_refused(guarded: Program) -> None:
    answer = sign_in(guarded, ROYAL)
    assert answer.status == 403
    assert "more scopes or claims than a cookie has room for" in text_of(answer)
    assert "set-cookie" not in answer.headers


@for_each("path", ["nothing", "a/b", "..%2Ftools", "%2e%2e/tools", "file:%2F%2F/project", ""])
def test_without_signing_in_there_is_no_page_below_the_assets(guarded: Program, path: str) -> None:
    assert fetched(guarded, "/explore/assets/explorer.css").status == 200
    assert fetched(guarded, f"/explore/assets/{path}").status == 303


@for_each("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "POST"])
def test_each_step_takes_its_own_methods(guarded: Program, method: str) -> None:
    for step, allowed in (
        ("sign-in", ("HEAD", "POST")),
        ("sign-in/begin", ()),
        ("sign-in/return", ()),
        ("sign-out", ("POST",)),
    ):
        path = f"/explore/{step}?code=a&state=b"
        asked = request(method, path=path, sec_fetch_site="same-origin")
        assert (guarded.ask(asked).status == 405) == (method not in allowed), step


def test_a_form_for_signing_in_is_small(guarded: Program) -> None:
    for body in (b"token=" + b"a" * 4_000_000, b"a=1&" * 100_000):
        asked = request("POST", body, path="/explore/sign-in", sec_fetch_site="same-origin")
        assert guarded.ask(asked).status == 413


@for_each("method", ["HEAD", "POST"])
def test_a_stream_is_for_readers_of_it(guarded: Program, method: str) -> None:
    asked = request(
        method,
        path="/explore/live/file:%2F%2F/project",
        sec_fetch_site="same-origin",
        cookie=cookie(sign_in(guarded, CLERK)),
    )
    assert guarded.ask(asked).status == 405


@pytest.mark.skipif(CHROMIUM is None, reason="not installed: Chromium")
def test_the_forms_of_the_pages_work_in_a_real_browser(guarded: Program) -> None:
    driver = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{guarded.port}/explore/tools/list_resources")
        page.fill("#token", CLERK)
        page.press("#token", "Enter")
        page.wait_for_url("**/tools/list_resources")
        page.click("main form button")
        assert "file:///project" in page.inner_text("main")
        page.click("text=Sign out")
        assert page.title() == "Sign in"
        browser.close()


@for_each(
    "headers",
    [
        {},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": ""},
        {"origin": "null"},
        {"origin": "http://evil.example", "sec_fetch_site": "same-origin"},
        {"origin": "http://127.0.0.1:1", "sec_fetch_site": "same-origin"},
    ],
)
def test_what_changes_something_comes_from_pages_of_this_server(
    guarded: Program, headers: dict[str, str]
) -> None:
    signed_in = cookie(sign_in(guarded, CLERK))
    body = urlencode({"token": CLERK}).encode()
    for path in ("/explore/sign-in", "/explore/sign-out", "/explore/tools/list_resources"):
        answer = guarded.ask(request("POST", body, path=path, cookie=signed_in, **headers))
        assert answer.status == 403, path
        assert "set-cookie" not in answer.headers


def test_behind_a_trusted_proxy_with_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    file = tmp_path / "mcp-resources.yaml"
    file.write_text(MANIFEST, encoding="utf-8")
    for proxies, name, is_secure in (
        (("--forwarded-allow-ips", "127.0.0.1"), "__Host-explorer=", True),
        ((), "explorer-80=", False),  # anybody can say so
    ):
        with running(file, *proxies) as program:
            answer = sign_in(program, CLERK, x_forwarded_proto="https")
            assert answer.headers["set-cookie"].startswith(name)
            assert ("; Secure" in answer.headers["set-cookie"]) == is_secure
            page = fetched(program, "/explore/", cookie=cookie(answer), x_forwarded_proto="https")
            assert page.status == 200
