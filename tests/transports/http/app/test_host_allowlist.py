"""Host and Origin allowlists, and CORS."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from resource_server.transports.http.app.application import HostAllowlist
from resource_server.transports.http.server.uvicorn_server import Address
from tests.cases import for_each
from tests.transports.program import Program, initialize, message, request, serving

HTTP = """
  allowed_hosts: [files.example.org, "any.example.org:*"]
  allowed_origins: ["https://app.example.org", "http://dev.example.org:*"]
"""
INITIALIZE: Any = initialize("2025-11-25")


start_program = partial(serving, http=HTTP)


def status(program: Program, method: str = "POST", **headers: Any) -> int:
    return program.ask(request(method, INITIALIZE, **headers)).status


@pytest.mark.guarantee("web-pages-stay-outside")
@for_each(
    "host",
    ["127.0.0.1", "127.0.0.1:8000", "localhost", "LocalHost:1", "[::1]", "[::1]:8000",
     "files.example.org", "FILES.example.org", "any.example.org", "any.example.org:8443",
     " localhost\t"],
)  # fmt: skip
def test_an_allowed_host_is_answered(program: Program, host: str) -> None:
    assert status(program, host=host) == 200


@pytest.mark.guarantee("web-pages-stay-outside")
@for_each(
    "host",
    [None, "", ":", ":8000", "evil.example", "evil.example:8000", "localhost.evil.example",
     "evil.example#localhost", "localhost@evil.example", "localhost:8000@evil.example",
     "localhost.", "127.0.0.1.", "127.0.0.1.nip.io", "127.1", "2130706433", "0x7f.1", "::1", "[::1",
     "[::1]evil", "[::1]:8000.evil.example", "0.0.0.0:8000", "localhost:", "localhost:*",
     "localhost:-1", "localhost:123456", "localhost:80:80", "localhost,evil.example",
     "localhost evil.example", "files.example.org:8000", "any.example.org:*", "*",
     "xn--localhost", "localhost\xa0"],
)  # fmt: skip
def test_any_other_host_is_421(program: Program, host: str | None) -> None:
    # A missing host (HTTP/1.0), one that was rebound to this machine, or one that looks like ours.
    version = "HTTP/1.0" if host is None else "HTTP/1.1"
    asked = request("POST", INITIALIZE, host=host, version=version)
    assert program.ask(asked).status == 421


@pytest.mark.guarantee("web-pages-stay-outside")
@for_each(
    "origin",
    [None, "https://app.example.org", "HTTPS://App.example.org", "http://dev.example.org:5173",
     "http://dev.example.org"],
)  # fmt: skip
def test_an_allowed_origin_is_answered(program: Program, origin: str | None) -> None:
    assert status(program, origin=origin) == 200


@pytest.mark.guarantee("web-pages-stay-outside")
@for_each(
    "origin",
    ["", "null", "https://evil.example", "http://app.example.org", "https://app.example.org:444",
     "https://app.example.org.evil.example", "https://evil.example/https://app.example.org",
     "https://app.example.org/", "file://", "https://dev.example.org:1", "http://localhost.",
     "http://localhost@evil.example", "http://localhost:6274", "https://127.0.0.1:1",
     "http://[::1]:3000", "chrome-extension://localhost", "localhost",
     "http://localhost http://evil.example", "*", "https://*.example.org"],
)  # fmt: skip
def test_any_other_origin_is_403(program: Program, origin: str) -> None:
    for method in ("POST", "GET", "DELETE", "OPTIONS"):
        refused = program.ask(request(method, INITIALIZE, origin=origin))
        assert refused.status == 403
        assert "access-control-allow-origin" not in refused.headers


@pytest.mark.guarantee("web-pages-stay-outside")
@for_each("host", ["localhost:5173", "127.0.0.1:8000", "files.example.org"])
def test_a_page_of_this_server_may_ask_and_one_of_another_port_may_not(
    program: Program, host: str
) -> None:
    for origin, expected in (
        (f"http://{host}", 200),
        (f"HTTPS://{host.upper()}", 200),  # behind a proxy that ends TLS
        (f"ftp://{host}", 403),
        (f"http://{host}1", 403),
        ("http://localhost", 403),
    ):
        assert status(program, host=host, origin=origin) == expected


def test_a_web_page_can_read_responses_and_errors_and_the_headers_it_needs(
    program: Program,
) -> None:
    origin = "https://app.example.org"
    answered = program.ask(request("POST", INITIALIZE, origin=origin))
    session = answered.headers["mcp-session-id"]
    refused = program.ask(request("POST", message("ping"), origin=origin))
    stream = program.ask(request("GET", origin=origin, mcp_session_id=session))
    ended = program.ask(request("DELETE", origin=origin, mcp_session_id=session))
    for each, status in ((answered, 200), (refused, 400), (stream, 200), (ended, 204)):
        assert each.status == status
        assert each.headers["access-control-allow-origin"] == origin
        assert each.headers["vary"] == "Origin"
        assert "mcp-session-id" in each.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in each.headers


def test_other_clients_get_no_cors_headers(program: Program) -> None:
    answered = program.ask(request("POST", INITIALIZE))
    assert not [name for name in answered.headers if name.startswith("access-control")]


def test_a_preflight_names_the_allowed_methods_and_headers(program: Program) -> None:
    asked = {"origin": "https://app.example.org", "access_control_request_method": "POST"}
    told = program.ask(request("OPTIONS", **asked))
    assert (told.status, told.body) == (204, b"")
    assert told.headers["access-control-allow-origin"] == "https://app.example.org"
    assert told.headers["access-control-allow-methods"] == "GET, POST, DELETE"
    allowed = told.headers["access-control-allow-headers"].split(", ")
    used = "authorization content-type last-event-id mcp-method mcp-name mcp-protocol-version"
    assert {*used.split(), "mcp-session-id"} <= set(allowed)
    assert "content-length" not in told.headers
    wanted = "Mcp-Param-Region, x-other, mcp-param-a b"
    told = program.ask(request("OPTIONS", access_control_request_headers=wanted, **asked))
    more = told.headers["access-control-allow-headers"].split(", ")
    assert more == [*allowed, "mcp-param-region", "mcp-param-a"]
    assert program.ask(request("OPTIONS", host="evil.example", **asked)).status == 421


def test_the_address_listened_on_is_an_allowed_host() -> None:
    for host, header in (("192.0.2.7", b"192.0.2.7:8000"), ("2001:db8::1", b"[2001:db8::1]:8000")):
        allowlist = HostAllowlist(Address(host, 8000).hosts, ())
        assert allowlist.check(header, None) == ()
    for everywhere in ("0.0.0.0", "::", "0:0:0:0:0:0:0:0"):  # noqa: S104
        assert Address(everywhere, 8000).hosts == ()


def test_an_absolute_target_replaces_the_host_header(program: Program) -> None:
    ask = initialize("2025-11-25")
    for target, status in (
        ("http://evil.example/mcp", 421),
        ("http://evil.example:80/mcp", 421),
        ("https://localhost.evil.example/mcp", 421),
        ("http://localhost:8000/mcp", 200),
        ("http://127.0.0.1/mcp", 200),
        ("http://[::1]:8000/mcp", 200),
        ("http://[2001:db8::1]/mcp", 421),
    ):
        assert program.ask(request("POST", ask, path=target)).status == status
    # The header is ignored then.
    there = request("POST", ask, path="http://localhost/mcp", host="evil.example")
    assert program.ask(there).status == 200
