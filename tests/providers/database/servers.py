"""Helpers for tests on database servers: their URLs, and a proxy whose connections can be cut."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit, urlunsplit

import pytest

from resource_server.errors import DeadlineExceeded, ResourceError
from resource_server.providers.database.engines.contract import Engine, QueryEngine, Statement
from tests.waiting import PATIENCE_S, steady, until

T = TypeVar("T")

DEADLINE_S = 1.0
PORTS = {"postgresql": 5432, "mariadb": 3306}


def server_url(variable: str, default: str) -> str:
    """Return the URL of a test server, with a login that may create databases."""
    return os.environ.get(variable, default)


def unique_name() -> str:
    """Return a name for a database or a login, which tells the process of the test."""
    return f"rs_test_{os.getpid()}_{secrets.token_hex(4)}"


def with_parts(
    url: str, *, database: str | None = None, login: str | None = None, port: int | None = None
) -> str:
    """Return the URL with another database, `user:password` or port of this machine."""
    parts = urlsplit(url)
    given, _, place = parts.netloc.rpartition("@")
    place = place if port is None else f"127.0.0.1:{port}"
    given = given if login is None else login
    path = parts.path if database is None else f"/{database}"
    return urlunsplit(parts._replace(netloc=f"{given}@{place}" if given else place, path=path))


def skip_without(kind: str, connect: Callable[[], Awaitable[None]]) -> None:
    """Skip the test if there is no server."""

    async def attempt() -> None:
        await connect()

    try:
        asyncio.run(attempt())
    except Exception as error:
        pytest.skip(f"no {kind} to test with: {type(error).__name__}")


async def attempt(engine: QueryEngine, sql: str, parameters: tuple[object, ...] = ()) -> str:
    """Run a query and return how it ended: none may run on after its deadline."""
    statement = Statement(sql, parameters)
    try:
        async with asyncio.timeout(PATIENCE_S):
            rows = await engine.run_authored(statement, limit=10, within=DEADLINE_S)
    except DeadlineExceeded:
        outcome = "stopped"
    except ResourceError as error:
        outcome = "told" if sql.strip(" ;)\0") and sql in str(error) else "refused"
    else:
        assert len(rows.rows) <= 10
        outcome = "answered"
    return outcome


class Proxy(NamedTuple):
    """A proxy to a server, on a local port."""

    port: int
    cut: Callable[[], Awaitable[None]]
    restore: Callable[[], Awaitable[None]]
    holding: asyncio.Event
    """Set when the proxy holds the message back."""
    release: Callable[[], None]
    """Pass on that message and all later ones."""
    sent: list[bytes]
    """Messages of the clients, as they came: each client waits for the response to its last one."""


@asynccontextmanager
async def proxy_to(host: str, port: int, *, hold: bytes | None = None) -> AsyncGenerator[Proxy]:
    """Forward to a server; a message that contains `hold` waits for `release`."""
    writers: set[asyncio.StreamWriter] = set()
    server: list[asyncio.Server] = []
    sent: list[bytes] = []
    holding, released = asyncio.Event(), asyncio.Event()

    async def pump(
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        taken: list[bytes],
        held: bytes | None = None,
    ) -> None:
        try:
            while data := await reader.read(65536):
                taken.append(data)
                if held is not None and held in data:
                    holding.set()
                    await released.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        writers.update((writer, far_writer))
        await asyncio.gather(pump(reader, far_writer, sent, hold), pump(far_reader, writer, []))
        writers.difference_update((writer, far_writer))

    async def listen(at: int) -> int:
        server[:] = [await asyncio.start_server(accept, "127.0.0.1", at)]
        return int(server[0].sockets[0].getsockname()[1])

    async def cut() -> None:
        server[0].close()
        released.set()
        for writer in tuple(writers):
            writer.transport.abort()
        await until(lambda: not writers)

    own = await listen(0)
    try:
        yield Proxy(own, cut, lambda: _ignore(listen(own)), holding, released.set, sent)
    finally:
        await cut()


async def _ignore(awaitable: Awaitable[object]) -> None:
    await awaitable


class Commits:
    """Counts what `commits()` yields."""

    def __init__(self, engine: Engine) -> None:
        self.seen = 0
        self._moved = asyncio.Condition()
        self._task = asyncio.create_task(self._count(engine))

    async def _count(self, engine: Engine) -> None:
        async for _ in engine.commits():
            async with self._moved:
                self.seen += 1
                self._moved.notify_all()

    async def beyond(self, seen: int) -> None:
        """Wait until more than `seen` commits were noticed."""
        async with asyncio.timeout(PATIENCE_S), self._moved:
            await self._moved.wait_for(lambda: self.seen > seen)

    async def quiet(self, seconds: float) -> None:
        """Wait until no commit was noticed for `seconds`."""
        await steady(lambda: self.seen, seconds)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def assert_secrets_kept(
    error: BaseException, caplog: pytest.LogCaptureFixture, *secret: str
) -> None:
    """Assert that neither the error nor any log record contains one of these."""
    formatter = logging.Formatter()
    told = [str(error), repr(error), *(formatter.format(record) for record in caplog.records)]
    for text in told:
        for one in secret:
            assert one not in text
