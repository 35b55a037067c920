"""Served below other ASGI applications: paths, callers, lifetimes, and parents that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import hypercorn.asyncio
import pytest
from hypercorn.config import Config
from starlette.applications import Starlette
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    SimpleUser,
)
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

import resource_server
from resource_server import Caller, ManifestError
from tests.cli.conftest import Run
from tests.embedding.parents import (
    ask,
    begin,
    behind_uvicorn,
    listening,
    modern,
    names,
    parent,
    text,
    within,
)
from tests.waiting import PATIENCE_S, block_until, until

pytestmark = pytest.mark.anyio

WAITING = """
import anyio
from resource_server.provider import Content, Resource

class Waiting:
    templates = ()
    reads = []
    ended = []
    async def __aenter__(self):
        type(self).opened = getattr(type(self), "opened", 0) + 1
    async def __aexit__(self, *_):
        type(self).opened -= 1
    def list(self, parent, *, after, limit):
        return [] if after or parent else [Resource(path=("a",), name="a", type="document")]
    def metadata(self, path):
        return Resource(path=path, name="a", type="document" if path else "collection")
    async def read(self, path, query):
        self.reads.append(path)
        try:
            await anyio.sleep_forever()
        finally:
            self.ended.append(path)
        return [Content("never")]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A manifest with one root, `docs`, of one document."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("one\n", "utf-8")
    (tmp_path / "mcp-resources.yaml").write_text("roots:\n  docs: {path: docs}\n", "utf-8")
    return tmp_path


DOCS = ["file:///docs", "file:///docs/a.txt"]
A = "file:///docs/a.txt"


async def test_a_mounted_server_lists_and_reads_below_the_path_of_its_mount(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder / "mcp-resources.yaml"))
    async with within(app) as client:
        assert await names(client, "/files/mcp") == DOCS
        assert await text(client, "/files/mcp", A) == "one\n"
        assert (await client.post("/mcp")).status_code == 404


async def test_a_manifest_can_be_a_mapping_whose_paths_are_those_of_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    mapping: dict[str, Any] = {"roots": {"docs": {"path": Path("docs")}}}
    app = parent(resource_server.asgi_app(mapping))
    mapping.clear()
    async with within(app) as client:
        assert await names(client, "/files/mcp") == DOCS


async def test_metrics_without_their_package_name_the_extra_that_has_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = parent(resource_server.asgi_app(folder / "mcp-resources.yaml"))
    async with within(app) as client:
        assert (await client.get("/files/metrics")).status_code == 200
        for module in ("prometheus_client", "prometheus_client.exposition"):
            monkeypatch.setitem(sys.modules, module, None)
        answer = await client.get("/files/metrics")
        assert (answer.status_code, "the extra `http`" in answer.text) == (501, True)


@pytest.mark.parametrize("manifest", ["roots: {docs: {pth: docs}}", "rots: 1", "", "roots: ["])
def test_a_wrong_manifest_is_refused_in_the_words_of_the_command(
    folder: Path,
    manifest: str,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
) -> None:
    monkeypatch.chdir(folder)
    Path("mcp-resources.yaml").write_text(manifest, "utf-8")
    with pytest.raises(ManifestError) as refused:
        resource_server.asgi_app("mcp-resources.yaml")
    assert run("list", "mcp-resources.yaml").err == f"{refused.value}\n"


def test_a_manifest_with_a_published_secret_is_not_mounted(folder: Path) -> None:
    manifest = {
        "roots": {"docs": {"path": str(folder / "docs")}},
        "server": {"key": "change-me" * 9},
    }
    with pytest.raises(ManifestError, match="key"):
        resource_server.asgi_app(manifest)


async def test_subscribers_of_a_mounted_server_are_notified(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder))
    async with behind_uvicorn(app) as client, listening(client, "/files/mcp", A) as found:
        (folder / "docs" / "a.txt").write_text("two\n", "utf-8")
        message: dict[str, Any] = {}
        while message.get("method") != "notifications/resources/updated":
            message = await asyncio.wait_for(found.get(), PATIENCE_S)
        assert message["params"]["uri"] == A


async def test_a_changed_manifest_is_reloaded_while_mounted(folder: Path) -> None:
    (folder / "more").mkdir()
    app = parent(resource_server.asgi_app(folder))
    async with behind_uvicorn(app) as client, listening(client, "/files/mcp") as found:
        manifest = "roots:\n  docs: {path: docs}\n  more: {path: more}\n"
        (folder / "mcp-resources.yaml").write_text(manifest, "utf-8")
        message = await asyncio.wait_for(found.get(), PATIENCE_S)
        assert message["method"] == "notifications/resources/list_changed"
        assert "file:///more" in await names(client, "/files/mcp")


async def test_a_manifest_that_has_become_invalid_leaves_the_last_one_in_force_in_a_later_loop(
    folder: Path,
) -> None:
    app = parent(resource_server.asgi_app(folder))

    async def listed() -> list[str]:
        async with within(app) as client:
            return await names(client, "/files/mcp")

    assert await asyncio.to_thread(asyncio.run, listed()) == DOCS
    (folder / "mcp-resources.yaml").write_text("roots: [", "utf-8")
    assert await listed() == DOCS


# -- paths


async def test_one_application_serves_at_two_paths_each_with_its_own_links(folder: Path) -> None:
    app = resource_server.asgi_app(folder)
    both = Starlette(routes=[Mount("/a", app), Mount("/b/c", app)])
    async with within(both) as client:
        for prefix in ("/a", "/b/c"):
            assert await names(client, f"{prefix}/mcp") == DOCS
            page = (await client.get(f"{prefix}/", headers={"accept": "text/html"})).text
            assert f"http://localhost{prefix}/mcp" in page
            links = set(re.findall(r'(?:href|src|action)="(/[^"]*)"', page))
            assert links
            assert all(link.startswith(f"{prefix}/explore/") for link in links)
            for link in links:
                assert (await client.get(link)).status_code == 200, link


async def test_two_applications_of_one_manifest_are_mounted_side_by_side(folder: Path) -> None:
    first, second = resource_server.asgi_app(folder), resource_server.asgi_app(folder)
    both = Starlette(routes=[Mount("/a", first), Mount("/b", second)])
    async with within(both) as client:
        session = (await begin(client, "/a/mcp")).headers["mcp-session-id"]
        headers = {"mcp-session-id": session, "accept": "application/json, text/event-stream"}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await client.post("/a/mcp", json=ping, headers=headers)).status_code == 200
        assert await names(client, "/b/mcp") == DOCS


@pytest.mark.parametrize(
    ("root_path", "path"),
    [
        ("", "/mcp"),
        ("/files", "/files/mcp"),  # as ASGI has it, and Starlette
        ("/files", "/mcp"),  # a parent that removes what it has matched
        ("/api/files", "/files/mcp"),  # a proxy that removes `/api`
        ("/api/files", "/api/files/mcp"),
        ("/mcp", "/mcp/mcp"),
    ],
)
async def test_the_endpoint_is_found_however_the_root_path_was_split_off(
    folder: Path, root_path: str, path: str
) -> None:
    app = resource_server.asgi_app(folder)

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "root_path": root_path, "path": path}, receive, send)

    async with within(outer) as client:
        assert await names(client, "/anything") == DOCS


async def test_the_legacy_stream_names_its_address_below_the_mount(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder, legacy_sse=True))
    async with behind_uvicorn(app) as client, client.stream("GET", "/files/sse") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "event: endpoint"
        assert (await anext(lines)).startswith("data: /files/messages?session=")


ISSUED = {
    "http": {"auth": {"issuer": "https://issuer.example", "audience": "api"}},
    "version": 1,
}


async def test_metadata_of_the_protected_resource_is_found_from_the_challenge_below_the_mount(
    folder: Path,
) -> None:
    manifest = {"roots": {"docs": {"path": str(folder / "docs")}}, **ISSUED}
    async with within(parent(resource_server.asgi_app(manifest))) as client:
        refused = await ask(client, "/files/mcp", "server/discover")
        assert refused.status_code == 401
        named = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert named
        metadata = (await client.get(named[1])).json()
        assert metadata["resource"] == "http://localhost/files/mcp"
        assert metadata["authorization_servers"] == ["https://issuer.example"]


async def test_a_person_signs_in_to_the_pages_below_the_mount_with_a_cookie_of_its_path(
    folder: Path,
) -> None:
    token = "0123456789abcdef0123"  # noqa: S105
    manifest = {
        "roots": {"docs": {"path": str(folder / "docs")}},
        "http": {"auth": {"tokens": [token]}, "explorer": True},
    }
    async with within(parent(resource_server.asgi_app(manifest))) as client:
        asked = await client.get("/files/", headers={"accept": "text/html"})
        assert asked.status_code == 303
        form = asked.headers["location"]
        assert form.startswith("/files/explore/sign-in?to=%2Ffiles%2F")
        sent = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
        signed = await client.post(form, data={"token": token}, headers=sent)
        assert signed.status_code == 303
        assert "; Path=/files/; " in signed.headers["set-cookie"]
        page = await client.get("/files/explore/", headers={"accept": "text/html"})
        assert page.status_code == 200
        assert 'action="/files/explore/sign-out"' in page.text


# -- hosts


@pytest.mark.guarantee("mounted-closed")
@pytest.mark.parametrize(
    ("client", "host", "options", "status"),
    [
        ("127.0.0.1", "localhost", {}, 200),
        ("127.0.0.1", "evil.example", {}, 421),
        ("203.0.113.7", "localhost", {}, 421),  # nobody but this machine is called that
        ("203.0.113.7", "files.example", {"allowed_hosts": ["files.example"]}, 200),
        ("203.0.113.7", "localhost", {"allowed_hosts": ["localhost"]}, 200),
        ("203.0.113.7", "any.example", {"allowed_hosts": ["*"]}, 200),
        ("203.0.113.7", "files.example", {}, 421),
        ("testclient", "localhost", {}, 200),  # no address: in the same process
    ],
)
async def test_hosts_are_those_of_this_machine_or_named_ones(
    folder: Path, client: str, host: str, options: Mapping[str, Any], status: int
) -> None:
    app = parent(resource_server.asgi_app(folder, **options))
    async with within(app, host=host, client=client) as sending:
        assert (await ask(sending, "/files/mcp", "server/discover")).status_code == status


async def test_the_host_of_the_public_url_is_allowed(folder: Path) -> None:
    manifest = {
        "roots": {"docs": {"path": str(folder / "docs")}},
        "http": {"url": "https://files.example/files/mcp"},
    }
    app = parent(resource_server.asgi_app(manifest))
    async with within(app, host="files.example", client="203.0.113.7") as client:
        assert await names(client, "/files/mcp") == DOCS


async def test_a_web_page_of_another_origin_is_refused_below_a_parent_too(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder))
    async with within(app) as client:
        for origin, status in (("http://evil.example", 403), ("http://localhost", 200)):
            headers = {"origin": origin}
            response = await ask(client, "/files/mcp", "server/discover", headers=headers)
            assert response.status_code == status


async def test_pages_are_for_this_machine_unless_the_manifest_shows_them_to_all(
    folder: Path,
) -> None:
    for options, page in (({}, b"landing"), ({"explorer": True}, b"explore")):
        manifest = {"roots": {"docs": {"path": str(folder / "docs")}}, "http": options}
        app = parent(resource_server.asgi_app(manifest, allowed_hosts=["files.example"]))
        async with within(app, host="files.example", client="203.0.113.7") as client:
            shown = await client.get("/files/", headers={"accept": "text/html"})
            assert shown.status_code == 200
            assert (b"/files/explore/" in shown.content) is (page == b"explore")
            there = await client.get("/files/explore/", headers={"accept": "text/html"})
            assert there.status_code == (200 if page == b"explore" else 404)


# -- callers

RESTRICTED = """
roots:
  docs: {path: docs}
  staff: {path: docs, access: {scopes: [staff]}}
http: {explorer: true}
"""


class HeaderBackend(AuthenticationBackend):
    """Signs in whom a header names, with the scopes after the name."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, SimpleUser] | None:
        name, *scopes = conn.headers.get("x-user", "").split() or [""]
        return (AuthCredentials(scopes), SimpleUser(name)) if name else None


def signed_in(app: Any) -> Starlette:
    return Starlette(
        routes=[Mount("/files", app)],
        middleware=[Middleware(AuthenticationMiddleware, backend=HeaderBackend())],
    )


@pytest.mark.guarantee("mounted-closed")
async def test_the_caller_is_the_user_whom_the_parent_has_authenticated(folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(RESTRICTED, "utf-8")
    app = signed_in(resource_server.asgi_app(folder, caller="scope"))
    async with within(app, host="localhost", client="203.0.113.7") as client:
        assert (await ask(client, "/files/mcp", "server/discover")).status_code == 401
        headers: list[dict[str, str]] = [{"x-user": "ada staff"}, {"x-user": "alan"}]
        for each, sees in zip(headers, (True, False), strict=True):
            assert ("file:///staff" in await names(client, "/files/mcp", **each)) is sees
            html = {"accept": "text/html", **each}
            page = await client.get("/files/explore/", headers=html)
            assert page.status_code == 200
            assert ("file:///staff/" in page.text) is sees
        session = (await begin(client, "/files/mcp", **headers[0])).headers["mcp-session-id"]
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for each, status in zip(headers, (200, 404), strict=True):
            sent = {"mcp-session-id": session, "accept": "application/json, text/event-stream"}
            response = await client.post("/files/mcp", json=ping, headers={**sent, **each})
            assert response.status_code == status


@pytest.mark.guarantee("mounted-closed")
async def test_without_a_user_in_the_scope_nobody_is_let_in(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder, caller="scope"))
    async with within(app) as client:
        assert (await ask(client, "/files/mcp", "server/discover")).status_code == 401
        page = await client.get("/files/", headers={"accept": "text/html"})
        assert page.status_code == 401
        assert "docs" not in page.text


@pytest.mark.guarantee("mounted-closed")
async def test_a_user_without_a_name_is_not_let_in(folder: Path) -> None:
    class Nameless:
        is_authenticated = True
        display_name = ""

        @property
        def identity(self) -> str:
            raise NotImplementedError

    app = resource_server.asgi_app(folder, caller="scope")

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "user": Nameless()}, receive, send)

    async with within(outer) as client:
        assert (await ask(client, "/mcp", "server/discover")).status_code == 401


@pytest.mark.guarantee("mounted-closed")
async def test_a_function_of_the_scope_is_the_caller_in_place_of_tokens(folder: Path) -> None:
    (folder / "mcp-resources.yaml").write_text(
        RESTRICTED.replace(
            "http: {explorer: true}", "http: {auth: {tokens: [abcdefghijklmnopqrst], scopes: [in]}}"
        ),
        "utf-8",
    )

    async def caller(scope: Mapping[str, Any]) -> Caller | None:
        sent = dict(scope["headers"])
        scopes = sent.get(b"x-scopes")
        return None if scopes is None else Caller("ada", frozenset(scopes.decode().split()))

    app = parent(resource_server.asgi_app(folder, caller=caller))
    async with within(app) as client:
        statuses = {
            scopes: (
                await ask(
                    client,
                    "/files/mcp",
                    "server/discover",
                    headers={} if scopes is None else {"x-scopes": scopes},
                )
            ).status_code
            for scopes in (None, "", "in", "in staff")
        }
        assert statuses == {None: 401, "": 403, "in": 200, "in staff": 200}
        assert "file:///staff" in await names(client, "/files/mcp", **{"x-scopes": "in staff"})
        assert "file:///staff" not in await names(client, "/files/mcp", **{"x-scopes": "in"})


@pytest.mark.guarantee("mounted-closed")
async def test_rows_are_those_of_the_user_of_the_parent(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "shop.db")) as database, database:
        database.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, owner TEXT)")
        database.executemany("INSERT INTO note VALUES (?, ?)", [(1, "ada"), (2, "alan")])
    manifest = {
        "databases": {
            "shop": {
                "url": f"sqlite:///{folder / 'shop.db'}",
                "tables": {"note": {"where": "owner = :claims.sub"}},
            }
        }
    }
    rows = "sqlite://shop/note/~rows?format=csv"
    app = signed_in(resource_server.asgi_app(manifest, caller="scope"))
    async with within(app) as client:
        for user, row in (("ada", "1,ada"), ("alan", "2,alan"), ("eve", "")):
            body, headers = modern("resources/read", {"uri": rows})
            sent = {**headers, "x-user": user}
            response = await client.post("/files/mcp", json=body, headers=sent)
            found = response.json()["result"]["contents"][0]["text"]
            assert found.split() == ["id,owner", *row.split()]
    async with resource_server.connect(manifest, caller=Caller("ada")) as mine:
        assert [row["id"] for row in await mine.read_table("sqlite://shop/note")] == [1]


# -- lifetimes


def test_a_server_starts_with_the_first_request_of_a_loop_and_ends_with_it(folder: Path) -> None:
    (folder / "waiting.py").write_text(WAITING, "utf-8")
    plugin = "roots: {docs: {path: docs}}\nproviders: {w: {use: waiting.py}}\n"
    (folder / "mcp-resources.yaml").write_text(plugin, "utf-8")
    app = parent(resource_server.asgi_app(folder))
    before = set(threading.enumerate())
    opened: list[int] = []

    async def once() -> None:
        async with within(app) as client:
            assert len(await names(client, "/files/mcp")) == 4
            provider = next(
                module.Waiting  # type: ignore[attr-defined]
                for name, module in list(sys.modules.items())
                if name.startswith("_resource_server_plugin_") and hasattr(module, "Waiting")
            )
            opened.append(provider.opened)

        def now() -> int:
            return provider.opened

        counts.append(now)

    counts: list[Any] = []
    for _ in range(3):
        asyncio.run(once())
        assert counts[-1]() == 0
        block_until(lambda: set(threading.enumerate()) <= before)
    assert opened == [1, 1, 1]


def ignore(_: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None:
    pass


def test_a_loop_that_is_closed_without_an_end_leaves_the_next_one_a_server(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder))

    async def once() -> list[str]:
        async with within(app) as client:
            return await names(client, "/files/mcp")

    for _ in range(3):
        loop = asyncio.new_event_loop()
        # What asyncio says of tasks that nobody has ended.
        loop.set_exception_handler(ignore)
        assert loop.run_until_complete(once()) == DOCS
        loop.close()


def test_several_threads_with_loops_of_their_own_are_served_at_once(folder: Path) -> None:
    app = parent(resource_server.asgi_app(folder))
    together = threading.Barrier(4)
    found: list[list[str]] = []

    async def once() -> None:
        async with within(app) as client:
            await names(client, "/files/mcp")
            together.wait(PATIENCE_S)
            found.append(await names(client, "/files/mcp"))

    threads = [threading.Thread(target=asyncio.run, args=(once(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [DOCS] * 4


async def test_a_lifespan_starts_the_server_and_its_end_refuses_requests(folder: Path) -> None:
    app = resource_server.asgi_app(folder)
    async with behind_uvicorn(app, lifespan="on") as client:
        assert await names(client, "/mcp") == DOCS
    async with within(app) as client:
        refused = await ask(client, "/mcp", "server/discover")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    async with app, within(app) as client:
        assert await names(client, "/mcp") == DOCS


async def test_a_parent_whose_lifespan_fails_leaves_nothing_behind(folder: Path) -> None:
    @contextlib.asynccontextmanager
    async def failing(_: Starlette) -> AsyncGenerator[None]:
        raise RuntimeError("no database")
        yield

    before = asyncio.all_tasks()
    app = Starlette(routes=[Mount("/files", resource_server.asgi_app(folder))], lifespan=failing)
    with pytest.raises(RuntimeError, match="no database"):
        async with app.router.lifespan_context(app):
            pass
    assert asyncio.all_tasks() <= before


async def test_a_server_that_cannot_start_fails_the_lifespan_and_each_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = resource_server.asgi_app(folder)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("of this test")

    monkeypatch.setattr("resource_server.embedding.asgi.application_of", fail)
    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan.startup" if not sent else "lifespan.shutdown"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "lifespan"}, receive, send)
    assert sent[0] == {"type": "lifespan.startup.failed", "message": "of this test"}
    async with within(app) as client:
        assert (await ask(client, "/mcp", "server/discover")).status_code == 500
        monkeypatch.undo()
        assert await names(client, "/mcp") == DOCS
    assert "starting a server failed" in caplog.text


# -- parents that misbehave


@pytest.mark.parametrize("kind", ["asyncio", "anyio"])
async def test_a_request_that_the_parent_cancels_ends_its_work_and_no_other(
    folder: Path, kind: str
) -> None:
    (folder / f"waiting_{kind}.py").write_text(WAITING, "utf-8")
    plugin = f"roots: {{docs: {{path: docs}}}}\nproviders: {{w: {{use: waiting_{kind}.py}}}}\n"
    (folder / "mcp-resources.yaml").write_text(plugin, "utf-8")
    app = resource_server.asgi_app(folder)
    scopes: list[anyio.CancelScope] = []

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        with anyio.CancelScope() as cancelling:
            scopes.append(cancelling)
            await app(scope, receive, send)
        if cancelling.cancelled_caught:
            await send({"type": "http.response.start", "status": 504, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async with within(outer) as client:
        assert await names(client, "/mcp")
        provider = next(
            module.Waiting  # type: ignore[attr-defined]
            for name, module in list(sys.modules.items())
            if name.startswith("_resource_server_plugin_")
            and str(getattr(module, "__file__", "")).endswith(f"waiting_{kind}.py")
        )
        reading = asyncio.create_task(
            ask(client, "/mcp", "resources/read", {"uri": "resource://w/a"})
        )
        await until(lambda: provider.reads)
        if kind == "anyio":
            scopes[-1].cancel()
            assert (await reading).status_code == 504
        else:
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        await until(lambda: provider.ended)
        assert await text(client, "/mcp", A) == "one\n"


async def test_a_first_request_that_is_cancelled_leaves_the_start_to_the_others(
    folder: Path,
) -> None:
    app = resource_server.asgi_app(folder)
    async with within(app) as client:
        first = asyncio.create_task(ask(client, "/mcp", "server/discover"))
        second = asyncio.create_task(names(client, "/mcp"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == DOCS


async def test_streams_pass_through_a_middleware_that_wraps_requests(folder: Path) -> None:
    async def tagged(request: Any, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-tag"] = "1"
        return response

    app = Starlette(
        routes=[Mount("/files", resource_server.asgi_app(folder))],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=tagged)],
    )
    async with behind_uvicorn(app) as client:
        response = await ask(client, "/files/mcp", "server/discover")
        assert response.headers["x-tag"] == "1"
        async with listening(client, "/files/mcp", A) as found:
            (folder / "docs" / "a.txt").write_text("two\n", "utf-8")
            message = await asyncio.wait_for(found.get(), PATIENCE_S)
            assert message["method"].startswith("notifications/resources/")
        assert await text(client, "/files/mcp", A) == "two\n"


def has_processes(session: int) -> bool:
    """Return whether a session that a program has begun has any process."""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


PROGRAM = """
import resource_server, uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

app = Starlette(routes=[Mount("/files", resource_server.asgi_app("."))])
uvicorn.run(app, port={port}, log_level="info")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_parent_that_stops_ends_open_streams_and_leaves_no_process(
    folder: Path, number: signal.Signals, unused_port: int
) -> None:
    manifest = "roots: {docs: {path: docs}}\ndatabases: {d: {url: 'files:d.csv'}}\n"
    (folder / "mcp-resources.yaml").write_text(manifest, "utf-8")
    (folder / "d.csv").write_text("id,name\n1,a\n", "utf-8")
    (folder / "parent.py").write_text(PROGRAM.format(port=unused_port), "utf-8")
    program = await asyncio.create_subprocess_exec(
        sys.executable, "parent.py", cwd=folder, stderr=subprocess.PIPE, start_new_session=True
    )
    assert program.stderr
    while b"running" not in (line := await program.stderr.readline()):
        assert line
    url = f"http://127.0.0.1:{unused_port}/files/mcp"
    with contextlib.suppress(httpx2.RemoteProtocolError):
        # A client that stays: its own timeout would end the stream.
        async with httpx2.AsyncClient(timeout=None) as client:
            assert "duckdb://d/d" in await names(client, url)
            async with listening(client, url, A):
                program.send_signal(number)
                await asyncio.wait_for(program.wait(), PATIENCE_S)
    assert program.returncode is not None
    await until(lambda: not has_processes(program.pid))


CLOSING = """
import asyncio, threading
from resource_server.provider import Resource

class Closing:
    templates = ()
    released = threading.Event()
    async def __aenter__(self):
        pass
    async def __aexit__(self, *_):
        await asyncio.to_thread(self.released.wait, 60)
        (FOLDER / "closed").touch()
    def list(self, parent, *, after, limit):
        return []
    def metadata(self, path):
        return Resource(path=path, name="a", type="collection")
    async def read(self, path, query):
        return []
"""


def test_a_provider_closes_to_its_end_although_the_loop_of_a_stopped_parent_ends(
    folder: Path,
) -> None:
    plugin = f"import pathlib\nFOLDER = pathlib.Path({str(folder)!r})\n{CLOSING}"
    (folder / "closing.py").write_text(plugin, "utf-8")
    (folder / "mcp-resources.yaml").write_text("providers: {c: {use: closing.py}}\n", "utf-8")
    app = resource_server.asgi_app(folder)

    async def serve_once() -> None:
        async with behind_uvicorn(app, lifespan="off") as client:
            await names(client, "/mcp")

        async def is_refused() -> bool:
            async with within(app) as client:
                return (await ask(client, "/mcp", "server/discover")).status_code == 503

        await until(is_refused)
        for name, module in list(sys.modules.items()):
            if name.startswith("_resource_server_plugin_") and hasattr(module, "Closing"):
                getattr(module, "Closing").released.set()  # noqa: B009 - of a plugin

    asyncio.run(serve_once())
    assert (folder / "closed").exists()


def test_hypercorn_ends_open_streams_and_the_server(folder: Path, unused_port: int) -> None:
    url = f"http://127.0.0.1:{unused_port}/files/mcp"
    before = set(threading.enumerate())

    async def serve_once() -> None:
        config = Config()
        config.bind = [f"127.0.0.1:{unused_port}"]
        config.graceful_timeout = 0.1
        stopping = asyncio.Event()
        app: Any = parent(resource_server.asgi_app(folder))
        serve: Any = getattr(hypercorn.asyncio, "serve")  # noqa: B009 - partly untyped
        running = asyncio.create_task(serve(app, config, shutdown_trigger=stopping.wait))
        async with httpx2.AsyncClient(timeout=PATIENCE_S) as client:

            async def is_up() -> bool:
                with contextlib.suppress(httpx2.ConnectError):
                    return await names(client, url) == DOCS
                return False

            await until(is_up)
            with contextlib.suppress(httpx2.RemoteProtocolError, httpx2.ReadError):
                async with listening(client, url, A):
                    stopping.set()
                    await asyncio.wait_for(running, PATIENCE_S)

    asyncio.run(serve_once())
    block_until(lambda: set(threading.enumerate()) <= before)
