"""`/healthz` and `/readyz`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.manifest.http import Http
from resource_server.protocol.server import Server
from resource_server.transports.http.app.application import Application
from tests.cases import for_each
from tests.transports.http.observability.monitor import BEARER, FORWARDED, GIVEN, get
from tests.transports.phone import Phone
from tests.transports.program import (
    PATIENCE_S,
    Program,
    project,
    request,
    running,
)

GUARDED = f"{{auth: {{tokens: [{GIVEN}]}}}}"


@contextmanager
def start_program(place: Path) -> Generator[Program]:
    with running(project(place)) as started:
        yield started


@for_each("path", ["/healthz", "/readyz", "/metrics"])
def test_the_endpoints_allow_only_get_and_head(program: Program, path: str) -> None:
    program.until(lambda: get(program, path).status == 200)
    head = program.ask(request("HEAD", path=path))
    assert (head.status, head.body) == (200, b"")
    for method in ("POST", "PUT", "DELETE"):
        refused = program.ask(request(method, path=path))
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


def test_a_response_to_head_has_no_body(program: Program) -> None:
    with program.line() as line:
        for _ in range(2):
            assert line.ask(request("HEAD", path="/healthz")).status == 200
        assert line.ask(request("GET", path="/healthz")).body == b"ok\n"


def test_healthz_answers_any_host(program: Program) -> None:
    alive = get(program, "/healthz", host="10.0.0.7:8000")
    assert (alive.status, alive.body) == (200, b"ok\n")


def test_readyz_is_200_when_all_mounts_are_up(program: Program) -> None:
    program.until(lambda: get(program, "/readyz").status == 200)
    assert get(program, "/readyz").json == {
        "ready": True,
        "mounts": 2,
        "up": 2,
        "unavailable": [],
    }


LATE = "databases: {late: {url: 'sqlite:///late.db'}}\n"


def test_readyz_is_503_while_a_mount_is_down_and_starts_it_again(
    tmp_path: Path,
) -> None:
    with running(project(tmp_path, more=LATE)) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        down = get(program, "/readyz")
        assert down.status == 503
        assert down.json == {"ready": False, "mounts": 3, "up": 2, "unavailable": ["late"]}
        with sqlite3.connect(tmp_path / "late.db") as database:
            database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        database.close()
        program.until(lambda: get(program, "/readyz").status == 200)


SLOW = """
import asyncio, dataclasses, pathlib
from tests.transports.phone import Phone

@dataclasses.dataclass
class Slow(Phone):
    async def __aenter__(self):
        with pathlib.Path({log!r}).open("a") as log:
            log.write("begun\\n")
        await asyncio.sleep({seconds})
        raise OSError

    async def __aexit__(self, *_):
        pass
"""


def test_readyz_does_not_wait_for_a_slow_mount_and_starts_it_once(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    (tmp_path / "slow.py").write_text(SLOW.format(log=str(log), seconds=PATIENCE_S))
    with running(project(tmp_path, provider=tmp_path / "slow.py")) as program:
        for _ in range(50):
            assert get(program, "/readyz").status == 503
        assert log.read_text() == "begun\n"


def test_readyz_restarts_a_failed_mount_only_after_its_pause(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    (tmp_path / "slow.py").write_text(SLOW.format(log=str(log), seconds=0))
    with running(project(tmp_path, provider=tmp_path / "slow.py")) as program:
        asked = 0
        while len(log.read_text().splitlines() if log.exists() else ()) < 2:
            assert get(program, "/readyz").status == 503
            asked += 1
        assert asked > 10


def test_readyz_names_mounts_only_to_authenticated_callers(tmp_path: Path) -> None:
    with running(project(tmp_path, http=GUARDED, more=LATE)) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        counts = {"ready": False, "mounts": 3, "up": 2}
        for headers in (
            {},
            {"authorization": "Bearer no-such-token-at-all"},
            {**BEARER, "host": "evil.example"},
            {**BEARER, "origin": "https://evil.example"},
        ):
            told = get(program, "/readyz", **headers)
            assert (told.status, told.json) == (503, counts)
        told = get(program, "/readyz", **BEARER)
        assert (told.status, told.json) == (503, {**counts, "unavailable": ["late"]})


SCOPED = """
databases:
  hidden: {url: "sqlite:///hidden.db", access: {scopes: [hr]}}
  shown: {url: "sqlite:///shown.db"}
"""


def test_a_mount_that_is_down_does_not_exist_for_callers_who_may_not_see_it(
    tmp_path: Path,
) -> None:
    other = "fedcba9876543210"
    tokens = f"[{{token: {GIVEN}, scopes: [hr]}}, {{token: {other}, scopes: []}}]"
    hidden = "\ndatabases: {hidden: {url: 'sqlite:///hidden.db', access: {scopes: [hr]}}}\n"
    with running(project(tmp_path, f"{{auth: {{tokens: {tokens}}}}}", hidden)) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        for headers, status in (
            ({"authorization": f"Bearer {GIVEN}"}, 503),
            ({"authorization": f"Bearer {other}"}, 200),
            ({}, 200),
        ):
            told = get(program, "/readyz", **headers)
            assert (told.status, told.json["ready"]) == (status, status == 200)


def test_a_hidden_mount_is_not_named(tmp_path: Path) -> None:
    other = "fedcba9876543210"
    tokens = f"[{{token: {GIVEN}, scopes: [hr]}}, {{token: {other}, scopes: []}}]"
    http = f"{{metrics: true, auth: {{tokens: {tokens}}}}}"
    proxied = ("--forwarded-allow-ips", "127.0.0.1")
    with running(project(tmp_path, http, SCOPED), *proxied) as program:
        program.until(lambda: get(program, "/readyz").json["up"] == 2)
        for token, names in ((GIVEN, ["hidden", "shown"]), (other, ["shown"])):
            bearer = {"authorization": f"Bearer {token}"}
            told = get(program, "/readyz", **bearer).json
            assert told["unavailable"] == names
            assert told["mounts"] - told["up"] == len(names)
            for way in ({}, FORWARDED):
                data = get(program, "/metrics", **bearer, **way).body
                assert (b'"hidden"' in data) == ("hidden" in names)
        # A client without a token, and one behind a proxy that adds no headers.
        assert get(program, "/readyz").json == {"ready": False, "mounts": 3, "up": 2}
        unnamed = get(program, "/metrics")
        assert (unnamed.status, b'"hidden"' in unnamed.body) == (200, False)
        assert b'"shown"' in unnamed.body
        wrong = {"authorization": "Bearer no-such-token-at-all"}
        assert get(program, "/metrics", **wrong).status == 401


def test_repeated_probes_leave_nothing_behind() -> None:
    mount = Mount("slow", "test://slow/", Endless())

    async def ask() -> int:
        before = len(asyncio.all_tasks())
        async with Server(Catalog([mount])) as server:
            application = Application(server, Http())
            for _ in range(100):
                assert await status(application, "/readyz") == 503
            started = len(asyncio.all_tasks()) - before
            await application.close()
        assert len(asyncio.all_tasks()) == before
        return started

    assert asyncio.run(ask()) == 1


class Endless(Phone):
    """A provider that never has started."""

    async def __aenter__(self) -> Self:
        await asyncio.Event().wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


async def status(application: Application, path: str) -> int:
    """Ask an application without a server."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [],
        "client": None,
    }
    await application(scope, receive, send)
    return int(sent[0]["status"])


def test_foreign_web_pages_do_not_learn_the_names_of_mounts(tmp_path: Path) -> None:
    with running(project(tmp_path)) as program:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            assert "unavailable" not in get(program, "/readyz", **headers).json
