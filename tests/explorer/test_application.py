"""Addresses of the explorer, the headers of every page, and who may open one."""

from __future__ import annotations

from pathlib import Path

from resource_server.explorer.addresses import page_address
from tests.cases import for_each
from tests.explorer.shop import Elements, fetched, make_shop, opened, text_of
from tests.transports.program import Program, request, running


def test_the_start_page_shows_mounts_and_how_to_connect_a_host(program: Program) -> None:
    for path in ("/", "/explore/"):
        text = text_of(fetched(program, path, host=f"127.0.0.1:{program.port}"))
        assert "project file:///project/" in text
        assert f"resource-server install claude-code --http {program.url}" in text


def test_every_link_of_the_first_pages_leads_to_a_page(program: Program) -> None:
    seen: set[str] = set()
    for path in ("/", "/explore/sqlite:%2F%2Fshop", "/explore/tools"):
        seen |= set(Elements(fetched(program, path)).links())
    pages = [each for each in seen if each.startswith("/")]
    assert len(pages) > 10
    assert {fetched(program, each).status for each in pages} == {200}


@for_each("path", ["/", "/explore/file:%2F%2F/project", "/explore/nothing", "/explore/tools"])
def test_every_page_forbids_what_is_not_its_own(program: Program, path: str) -> None:
    headers = fetched(program, path).headers
    policy = headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "require-trusted-types-for 'script'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_own_style_and_scripts_are_kept_by_browsers(program: Program) -> None:
    page = Elements(fetched(program, "/"))
    addresses = [each["href"] or "" for each in page.named("link")]
    addresses += [each["src"] or "" for each in page.named("script")]
    for address in addresses:
        answer = fetched(program, address)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
    assert fetched(program, "/explore/assets/page.py").status == 404


def test_another_host_or_web_page_is_refused(program: Program) -> None:
    assert opened(program, "file:///project", host="shop.example").status == 421
    assert opened(program, "file:///project", origin="https://shop.example").status == 403


def test_pages_have_no_cors(program: Program) -> None:
    origin = f"http://127.0.0.1:{program.port}"
    answer = opened(program, "file:///project", origin=origin, host=f"127.0.0.1:{program.port}")
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers


def test_other_methods_are_refused(program: Program) -> None:
    for method in ("PUT", "DELETE", "OPTIONS"):
        assert program.ask(request(method, path="/explore/")).status == 405
    assert program.ask(request("HEAD", path="/explore/")).status == 200


def test_the_start_page_needs_no_slash(program: Program) -> None:
    answer = fetched(program, "/explore")
    assert (answer.status, answer.headers["location"]) == (303, "/explore/")
    assert fetched(program, "/explorer").status == 404


@for_each(
    "asked, status",
    [
        ({"method": "POST", "path": "/explore/tools/a"}, 403),
        ({"method": "HEAD", "path": "/explore/live/file:%2F%2F/project"}, 405),
        ({"method": "GET", "path": "/explore/", "host": "shop.example"}, 421),
        ({"method": "GET", "path": "/explore/", "origin": "https://shop.example"}, 403),
    ],
)
def test_refusals_are_pages_for_browsers_and_json_for_programs(
    program: Program, asked: dict[str, str], status: int
) -> None:
    for accept, media_type in (
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
        ("application/json, text/event-stream", "application/json"),
        ("*/*", "application/json"),
    ):
        answer = program.ask(request(**asked, accept=accept))
        assert (answer.status, answer.headers["content-type"]) == (status, media_type)
        assert ("default-src 'none'" in str(answer.headers)) == media_type.startswith("text")
        assert b"Tea shop" not in answer.body


def test_the_rate_limit_answers_with_a_page_that_says_when_to_come_back(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    limits = "http: {limits: {rate: 1/h, burst: 1}}\n"
    manifest.write_text(manifest.read_text("utf-8") + limits, encoding="utf-8")
    with running(manifest) as program:
        first, second = (fetched(program, "/explore/") for _ in range(2))
    assert (first.status, second.status) == (200, 429)
    assert "too many requests" in text_of(second)
    assert int(second.headers["retry-after"]) > 1000


def test_a_page_counts_as_the_requests_that_it_makes(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    limits = "http: {limits: {rate: 1/h, burst: 6}}\n"
    manifest.write_text(manifest.read_text("utf-8") + limits, encoding="utf-8")
    paths = ["/explore/"] * 3 + [f"/explore/{page_address('sqlite://shop/orders')}", "/explore/"]
    with running(manifest) as program:
        assert [fetched(program, path).status for path in paths] == [200] * 4 + [429]


def test_the_manifest_can_switch_it_off(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    manifest.write_text(manifest.read_text("utf-8") + "http: {explorer: false}\n", encoding="utf-8")
    with running(manifest) as program:
        assert fetched(program, "/explore/").status == 404
        assert "This is an MCP server" in text_of(fetched(program, "/"))


def test_below_a_path_of_a_proxy_every_link_has_it(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    http = "http: {url: 'https://shop.example/tea/mcp', allowed_hosts: [shop.example]}\n"
    manifest.write_text(manifest.read_text("utf-8") + http, encoding="utf-8")
    with running(manifest) as program:
        for path in ("/explore/file:%2F%2F/project", "/tea/explore/file:%2F%2F/project"):
            links = Elements(fetched(program, path, host="shop.example")).links()
            assert all(each.startswith(("/tea/explore/", "#")) for each in links)


@for_each(
    "path",
    [
        "filter",
        "filter?uri=&column=a",
        "filter?uri=nonsense&column=a",
        "filter?uri=file%3A%2F%2F%2Fa%3Fb%3D1%26b%3D2&column=a",
        "filter?uri=file%3A%2F%2F%2Fa&column=a&operator=drop",
        "columns?uri=%00",
        "expand",
        "expand?~template=%7B",
        "expand?~template=javascript%3Aalert(1)",
        "tools/../filter",
        "search?query=%00",
        "nothing/at/all",
        "%00",
        "file:%2F%2F/%0d%0ax",
    ],
)
def test_nonsense_is_not_found_and_nothing_fails(program: Program, path: str) -> None:
    assert fetched(program, f"/explore/{path}").status in (200, 400, 404)
    assert not [line for line in program.errors if "failed" in line]


def test_the_path_of_a_proxy_may_begin_as_the_explorer_does(tmp_path: Path) -> None:
    manifest = make_shop(tmp_path)
    http = "http: {url: 'https://shop.example/explore/mcp', allowed_hosts: [shop.example]}\n"
    manifest.write_text(manifest.read_text("utf-8") + http, encoding="utf-8")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with running(manifest) as program:
        for kept in ("", "/explore"):
            for path in ("/explore/", "/explore/tools", "/explore/file:%2F%2F/project"):
                page = fetched(program, f"{kept}{path}", host="shop.example")
                assert page.status == 200, f"{kept}{path}"
                links = Elements(page).links()
                assert all(each.startswith(("/explore/explore/", "#")) for each in links)
            answer = program.ask(request("POST", ping, path=f"{kept}/mcp", host="shop.example"))
            assert answer.headers["content-type"] == "application/json"
