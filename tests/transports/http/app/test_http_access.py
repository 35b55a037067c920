"""Access by scope over HTTP: each token reads, and is notified of, what its scopes allow."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cases import for_each
from tests.transports.program import (
    Answer,
    Program,
    RawConnection,
    Session,
    initialize,
    message,
    modern,
    notification,
    request,
    running,
)

CLERK, GUEST = "clerk-0123456789abcdef", "guest-0123456789abcdef"
CLERK_AS_GUEST, CLERK_AGAIN = "narrow-0123456789abcdef", "again-0123456789abcdef"
PLAIN, NAMED = "plain-0123456789abcdef", "named-0123456789abcdef"
BASE = "file:///project"
PAY, NOTE = f"{BASE}/hr/pay.txt", f"{BASE}/note.txt"
TERMS = "resource://terms"
URIS = [BASE, f"{BASE}/hr", PAY, NOTE, TERMS]

_MANIFEST = f"""
server: {{cache: {{scope: public}}}}
roots:
  project:
    path: project
    directories: {{hr: {{access: {{scopes: [hr:read]}}}}}}
  terms: {{path: terms, uri: "{TERMS}/", access: {{scopes: [terms, hr:read]}}}}
http:
  url: http://127.0.0.1:9/mcp
  auth:
    issuer: https://issuer.invalid
    scopes: [mcp:read]
    tokens:
      - {{token: {CLERK}, subject: clerk, scopes: [mcp:read, hr:read, terms]}}
      - {{token: {CLERK_AGAIN}, subject: clerk, scopes: [mcp:read, hr:read, terms, more]}}
      - {{token: {CLERK_AS_GUEST}, subject: clerk, scopes: [mcp:read, terms]}}
      - {{token: {GUEST}, subject: guest, scopes: [mcp:read]}}
      - {PLAIN}
      - {{token: {NAMED}, subject: named}}
"""


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    (place / "terms").mkdir()
    (place / "project" / "hr").mkdir(parents=True)
    (place / "project" / "hr" / "pay.txt").write_text("90000")
    (place / "project" / "note.txt").write_text("hello")
    manifest = place / "mcp-resources.yaml"
    manifest.write_text(_MANIFEST)
    with running(manifest, "--legacy-sse") as started:
        yield started


def bearer(token: str) -> str:
    return f"Bearer {token}"


def ask(program: Program, token: str, method: str, **params: Any) -> Any:
    return program.ask(modern(method, params, authorization=bearer(token))).json


def listed(program: Program, token: str, **params: Any) -> set[str]:
    result = ask(program, token, "resources/list", **params)["result"]
    assert result["cacheScope"] == "private"
    return {each["uri"] for each in result["resources"]}


@pytest.mark.guarantee("others-need-a-token")
def test_each_token_lists_only_what_its_scopes_allow(program: Program) -> None:
    shown = {BASE, NOTE}
    assert listed(program, CLERK) == shown | {f"{BASE}/hr", PAY, TERMS}
    assert listed(program, GUEST) == listed(program, CLERK_AS_GUEST) == shown
    assert listed(program, CLERK, uri=BASE) == {f"{BASE}/hr", NOTE}
    assert listed(program, GUEST, uri=BASE) == {NOTE}


@pytest.mark.guarantee("tokens-grant-what-they-name")
@for_each("token", [PLAIN, NAMED])
def test_a_static_token_without_scopes_has_the_required_ones_and_no_more(
    program: Program, token: str
) -> None:
    assert listed(program, token) == listed(program, GUEST) == {BASE, NOTE}
    assert "error" in ask(program, token, "resources/read", uri=PAY)
    assert "result" in ask(program, token, "resources/read", uri=NOTE)


@pytest.mark.guarantee("refusal-looks-like-absence")
@for_each("uri", [PAY, f"{BASE}/hr", TERMS])
@for_each("method", ["resources/read", "resources/metadata", "resources/list"])
def test_what_a_token_does_not_allow_is_refused_as_missing(
    program: Program, method: str, uri: str
) -> None:
    absent = f"{uri}-is-not-there"
    refused = str(ask(program, GUEST, method, uri=uri))
    assert refused != str(ask(program, CLERK, method, uri=uri))
    assert refused.replace(uri, absent) == str(ask(program, GUEST, method, uri=absent))
    assert refused.replace(uri, absent) == str(ask(program, CLERK, method, uri=absent))


@pytest.mark.guarantee("others-need-a-token")
def test_completions_hold_only_what_a_token_allows(program: Program) -> None:
    def values(token: str, typed: str) -> list[str]:
        ref = {"type": "ref/resource", "uri": f"{BASE}/{{+path}}"}
        argument = {"name": "path", "value": typed}
        found = ask(program, token, "completion/complete", ref=ref, argument=argument)
        return found["result"]["completion"]["values"]

    def templates(token: str) -> set[str]:
        found = ask(program, token, "resources/templates/list")["result"]["resourceTemplates"]
        return {each["uriTemplate"].partition("{")[0] for each in found}

    assert values(CLERK, "hr/") == ["hr/pay.txt"]
    assert values(GUEST, "hr/") == []
    assert values(GUEST, "") == ["note.txt"]
    assert templates(CLERK) == {f"{BASE}/", f"{TERMS}/"}
    assert templates(GUEST) == {f"{BASE}/"}


def listen(line: RawConnection, token: str) -> list[str]:
    """Listen to everything; return the acknowledged subscriptions."""
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": URIS}
    asked = {"notifications": wanted}
    opened = line.ask(modern("subscriptions/listen", asked, authorization=bearer(token)))
    assert opened.status == 200
    return line.event().json["params"]["notifications"]["resourceSubscriptions"]


def updated(line: RawConnection) -> str:
    """Return the URI of the next notification."""
    while (told := line.event().json)["method"] != "notifications/resources/updated":
        pass
    return told["params"]["uri"]


@pytest.mark.guarantee("others-need-a-token")
def test_each_stream_notifies_of_what_its_token_allows(program: Program) -> None:
    with program.line() as clerk, program.line() as guest:
        assert listen(clerk, CLERK) == URIS
        assert listen(guest, GUEST) == [BASE, NOTE]
        (program.folder / "hr" / "pay.txt").write_text("100000")
        (program.folder / "hr" / "new.txt").write_text("new")
        untold = seen = {f"{BASE}/hr", PAY}
        while untold:
            # A slow write causes two notifications.
            told = updated(clerk)
            assert told in seen
            untold = untold - {told}
        (program.folder / "note.txt").write_text("hello again")
        # The very next notification of any kind: none came for the changes before.
        assert guest.event().json["params"]["uri"] in (BASE, NOTE)
        while (told := updated(clerk)) not in (BASE, NOTE):
            assert told in seen


def opened(program: Program, token: str) -> dict[str, str]:
    """Begin a session; return the headers of its requests."""
    begun = program.ask(request("POST", initialize("2025-11-25"), authorization=bearer(token)))
    return {"mcp_session_id": begun.headers["mcp-session-id"], "authorization": bearer(token)}


def post(program: Program, headers: dict[str, str], body: object) -> Answer:
    return program.ask(request("POST", body, **headers))


def test_a_session_can_subscribe_only_to_what_its_token_allows(program: Program) -> None:
    for token, may in (CLERK, True), (GUEST, False):
        headers = opened(program, token)
        assert post(program, headers, notification("notifications/initialized")).status == 202
        subscribed = post(program, headers, message("resources/subscribe", {"uri": PAY}))
        assert ("result" in subscribed.json) is may


@for_each(("token", "status"), [(CLERK_AGAIN, 200), (CLERK_AS_GUEST, 404), (GUEST, 404)])
def test_a_session_is_open_only_to_callers_with_the_view_of_its_owner(
    program: Program, token: str, status: int
) -> None:
    headers = opened(program, CLERK)
    other = {**headers, "authorization": bearer(token)}
    assert post(program, other, message("ping")).status == status
    if status == 404:
        assert program.ask(request("GET", **other)).status == 404
        assert program.ask(request("DELETE", **other)).status == 404
    assert post(program, headers, message("ping")).status == 200


@for_each(
    ("token", "status"), [(CLERK, 202), (CLERK_AGAIN, 202), (CLERK_AS_GUEST, 404), (GUEST, 404)]
)
def test_a_legacy_stream_is_open_only_to_callers_with_the_view_of_its_owner(
    program: Program, token: str, status: int
) -> None:
    with program.line() as line:
        assert line.ask(request("GET", path="/sse", authorization=bearer(CLERK))).status == 200
        path = line.event().data
        posted = request("POST", message("ping"), path=path, authorization=bearer(token))
        assert program.ask(posted).status == status


def test_the_metadata_names_the_scopes_of_all_mounts(program: Program) -> None:
    described = program.ask(request("GET", path="/.well-known/oauth-protected-resource")).json
    assert described["scopes_supported"] == ["mcp:read", "hr:read", "terms"]


def test_a_challenge_names_only_the_scopes_of_every_request(
    program: Program,
) -> None:
    refused = program.ask(modern("resources/list", authorization=None))
    assert refused.status == 401
    assert 'scope="mcp:read"' in refused.headers["www-authenticate"]


def test_the_access_rules_of_a_reloaded_manifest_hold_at_once(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "note.txt").write_text("hello")
    manifest = tmp_path / "mcp-resources.yaml"
    text = (
        "roots: {project: {path: project, access: {scopes: [SCOPE]}}}\n"
        f"http: {{auth: {{tokens: [{{token: {GUEST}, scopes: [one]}}]}}}}\n"
    )
    manifest.write_text(text.replace("SCOPE", "one"))
    with running(manifest) as program:
        assert listed(program, GUEST) == {BASE, NOTE}
        manifest.write_text(text.replace("SCOPE", "two"))
        program.until(lambda: listed(program, GUEST) == set())
        manifest.write_text(text.replace("SCOPE", "one"))
        program.until(lambda: listed(program, GUEST) == {BASE, NOTE})


@pytest.mark.guarantee("tokens-grant-what-they-name")
def test_a_stream_ends_where_its_token_sees_less_than_the_session_owner(
    tmp_path: Path,
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "note.txt").write_text("hello")
    manifest = tmp_path / "mcp-resources.yaml"
    text = (
        "roots: {project: {path: project, access: {scopes: [SCOPE]}}}\n"
        f"http: {{auth: {{tokens: [{{token: {CLERK}, subject: clerk, scopes: [one, two]}}, "
        f"{{token: {CLERK_AS_GUEST}, subject: clerk, scopes: [one]}}]}}}}\n"
    )
    manifest.write_text(text.replace("SCOPE", "one"))
    with running(manifest) as program:
        opened = program.ask(request("POST", initialize("2025-11-25"), authorization=bearer(CLERK)))
        session = Session(program, opened.headers["mcp-session-id"], "2025-11-25")
        subscribe = message("resources/subscribe", {"uri": NOTE})
        assert "result" in session.post(subscribe, authorization=bearer(CLERK)).json
        with session.stream(authorization=bearer(CLERK_AS_GUEST)) as stream:
            (tmp_path / "project" / "note.txt").write_text("more")
            assert stream.event().json["params"]["uri"] == NOTE
            manifest.write_text(text.replace("SCOPE", "two"))
            program.until(lambda: listed(program, CLERK_AS_GUEST) == set())
            (tmp_path / "project" / "note.txt").write_text("even more")
            assert stream.events() == []
        with session.stream(authorization=bearer(CLERK)) as stream:
            assert stream.event().json["params"]["uri"] == NOTE
