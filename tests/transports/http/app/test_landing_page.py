"""The page at `/`, for a person with a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from resource_server import __version__
from resource_server.cli.hosts.known_hosts import HOSTS as INSTALLABLE
from resource_server.transports.http.app import landing_page
from tests.cases import for_each
from tests.transports.http.observability.monitor import BEARER, GIVEN, get
from tests.transports.program import Program, request, running

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
CLERK = {"authorization": "Bearer clerk-0123456789abcdef"}
HOSTILE = '</title><script>alert(1)</script>" onload="alert(1)'
MANIFEST = f"""
server: {{title: '{HOSTILE}'}}
roots:
  project: {{path: project, title: '{HOSTILE} \u202egnp', description: "<img src=x>"}}
  quiet: {{path: project, listed: false, uri: "file:///quiet/"}}
databases: {{late: {{url: 'sqlite:///late.db'}}}}
http: {{explorer: false}}
"""
GUARDED = f"""
server: {{title: Tea shop}}
roots:
  project: {{path: project}}
  wages: {{path: project, uri: "file:///wages/", access: {{scopes: [hr]}}}}
http: {{explorer: false, auth: {{tokens: [{{token: {GIVEN}, scopes: [basic]}},
                        {{token: clerk-0123456789abcdef, scopes: [hr]}}]}}}}
"""


def write(place: Path, manifest: str) -> Path:
    (place / "project").mkdir()
    file = place / "mcp-resources.yaml"
    file.write_text(manifest, encoding="utf-8")
    return file


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    with running(write(place, MANIFEST)) as started:
        yield started


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[Program]:
    """A server that requires tokens."""
    with running(write(tmp_path_factory.mktemp("guarded"), GUARDED)) as started:
        yield started


class Elements(HTMLParser):
    """The start tags of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def page(program: Program, **headers: str) -> str:
    answer = get(program, "/", **{**BROWSER, **headers})
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    return answer.body.decode()


def test_a_browser_is_shown_the_mounts_and_the_version(program: Program) -> None:
    shown = page(program)
    assert "<code>file:///project/</code>" in shown
    assert f"resource-server {__version__}" in shown
    assert "file:///quiet/" not in shown


def test_the_page_says_which_mounts_are_unavailable(program: Program) -> None:
    program.until(lambda: "1 of 2 mounts unavailable" in page(program))
    assert "<bdi>late</bdi></strong> (unavailable)" in page(program)


def test_names_and_titles_are_text(program: Program) -> None:
    shown = page(program)
    found = Elements(shown)
    assert {"script", "img"} & set(found.tags) == set()
    assert {name for name, _ in found.attributes} == {"lang", "charset", "name", "content"}
    assert unescape(shown).count(HOSTILE) == 3
    assert "\u202e" not in shown


def test_nothing_but_the_style_of_the_page_may_load(program: Program) -> None:
    answer = get(program, "/", **BROWSER)
    [style] = re.findall("<style>(.*?)</style>", answer.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    rules = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "base-uri 'none'", "form-action 'none'"} < set(rules)
    assert f"style-src 'sha256-{digest}'" in rules
    assert "frame-ancestors 'none'" in rules


def test_the_shown_command_and_configuration_have_the_url_that_was_opened(
    program: Program,
) -> None:
    shown = unescape(page(program, host=f"localhost:{program.port}"))
    url = f"http://localhost:{program.port}/mcp"
    assert f"resource-server install claude-code --http {url}<" in shown
    [configuration] = re.findall(r"<code>(\{.*?)</code>", shown, re.DOTALL)
    servers = json.loads(configuration)["mcpServers"]
    assert servers == {"resources": {"type": "http", "url": url}}


def test_every_named_host_can_be_installed_into() -> None:
    assert {"claude-code", *landing_page.HOSTS} <= {host.id for host in INSTALLABLE}


@for_each("accept", ["*/*", "application/json", "text/html;q=0, */*", None])
def test_a_program_finds_nothing(program: Program, accept: str | None) -> None:
    refused = program.ask(request("GET", path="/", accept=accept))
    assert (refused.status, refused.headers["content-type"]) == (404, "application/json")


def test_only_get_and_head_find_the_page(program: Program) -> None:
    assert program.ask(request("HEAD", path="/", **BROWSER)).status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert program.ask(request(method, path="/", **BROWSER)).status == 404


def test_another_host_or_web_page_is_refused(program: Program) -> None:
    assert get(program, "/", **BROWSER, host="shop.example").status == 421
    assert get(program, "/", **BROWSER, origin="https://shop.example").status == 403


@for_each("token", [None, "wrong-0123456789abcdef", ""])
def test_without_a_valid_token_nothing_of_the_manifest_is_shown(
    guarded: Program, token: str | None
) -> None:
    shown = page(guarded, **({} if token is None else {"authorization": f"Bearer {token}"}))
    assert "visible with a token only" in shown
    assert "Bearer TOKEN" in shown
    assert not re.search("Tea shop|project|wages|[0-9] mount", shown)


def test_a_token_shows_the_mounts_of_its_scopes(guarded: Program) -> None:
    assert "file:///wages/" in page(guarded, **CLERK)
    shown = page(guarded, **BEARER)
    assert "file:///project/" in shown
    assert "wages" not in shown
    assert "Tea shop" in shown
