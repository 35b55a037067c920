"""Failing files and statements of DuckDB, and ends of its workers."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import duckdb
import pytest

from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    MountUnavailable,
    ResourceBusy,
    ResourceError,
)
from resource_server.providers.database.engines.contract import QueryEngine, Statement
from resource_server.providers.database.engines.duckdb.engine import DuckdbEngine
from resource_server.providers.database.engines.factory import make_engine
from tests.providers.database.engines.duckdb.numbered import write, write_parquet
from tests.providers.database.engines.duckdb.processes import children_of, ended
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

DEADLINE_S = 0.5
ENDLESS = "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) = 7"
HUNGRY = "SELECT count(*) FROM (SELECT DISTINCT repeat('x', 200) || i FROM range(100000000) t(i))"


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[DuckdbEngine]:
    engine = make_engine(url, readable=_everything, schemas=(), interval=None, notify=False)
    assert isinstance(engine, DuckdbEngine)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


def _everything(table: str, column: str, *, through: str | None = None) -> bool:
    return True


async def count(engine: QueryEngine) -> int:
    """Return the number of rows that hold what was written."""
    sql = "SELECT count(*) FROM t WHERE name = 'name ' || id"
    found = await engine.run_authored(Statement(sql), limit=1, within=PATIENCE_S)
    return int(str(found.rows[0][0]))


KINDS: dict[str, tuple[Callable[..., Path], str]] = {
    "database": (write, "duckdb:///{}"),
    "parquet": (write_parquet, "files:{}"),
}


@pytest.fixture(params=["database", pytest.param("parquet", marks=pytest.mark.deep)])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A file with 1,000 rows, and its URL."""
    make, url = KINDS[request.param]
    path = make(tmp_path / ("t.duckdb" if request.param == "database" else "t.parquet"))
    return path, url.format(path)


async def test_no_process_is_left_after_the_engine_closes(source: tuple[Path, str]) -> None:
    before = children_of(os.getpid())
    async with opened(source[1]) as engine:
        assert await count(engine) == 1000
        (worker,) = children_of(os.getpid()) - before
        running = asyncio.create_task(
            engine.run_authored(Statement(ENDLESS), limit=1, within=PATIENCE_S)
        )
        await asyncio.sleep(0)
    await asyncio.gather(running, return_exceptions=True)
    assert ended(worker)
    assert children_of(os.getpid()) <= before


SERVES = """
import asyncio, sys
from resource_server.providers.database.engines.factory import make_engine
from tests.providers.database.engines.duckdb.processes import children_of
import os

async def main():
    engine = make_engine(
        sys.argv[1], readable=lambda *_: True, schemas=(), interval=None, notify=False
    )
    await engine.open()
    print(*children_of(os.getpid()), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.guarantee("duckdb-is-confined")
async def test_no_process_is_left_after_the_server_is_killed(source: tuple[Path, str]) -> None:
    root = Path(__file__).parents[5]
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVES, source[1]), cwd=root, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    worker = int(await asyncio.wait_for(server.stdout.readline(), PATIENCE_S))
    assert not ended(worker)
    server.kill()
    await server.wait()
    await until(lambda: ended(worker))


# -- files that fail


async def outcome(engine: QueryEngine) -> str:
    """Return how a count of the rows ends, in plain words."""
    try:
        return f"{await count(engine)} rows"
    except (ResourceError, MountUnavailable) as error:
        return f"{type(error).__name__}: {error}"


def replaced(path: Path, data: bytes) -> None:
    """Put a file with this content in the place of another, at once."""
    new = path.with_name("new")
    new.write_bytes(data)
    new.replace(path)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "one byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[: -len(data) // 3],
    "zeros": lambda data: bytes(len(data)),
    "zeros in the middle": lambda data: data[:50] + bytes(len(data) - 100) + data[-50:],
    "text": lambda _: b"id,name\n1,x\n" * 1000,
    "SQLite": lambda data: b"SQLite format 3\0" + data[16:-8] + bytes(8),
    "ones": lambda data: b"\xff" * len(data),
}


async def test_a_damaged_file_gives_a_clear_error_and_comes_back(source: tuple[Path, str]) -> None:
    path, url = source
    whole = path.read_bytes()
    async with opened(url) as engine:
        assert await outcome(engine) == "1000 rows"
        for name, damage in DAMAGES.items():
            replaced(path, damage(whole))
            told = await outcome(engine)
            assert told.partition(":")[0] in ("MountUnavailable", "InvalidParameter"), (name, told)
            assert str(path.parent) not in told
        replaced(path, whole)
        assert await outcome(engine) == "1000 rows"


@pytest.mark.deep
@pytest.mark.guarantee("duckdb-is-confined")
async def test_flipped_bits_never_hang_or_end_the_server(source: tuple[Path, str]) -> None:
    path, url = source
    whole = path.read_bytes()
    dice = random.Random(7)  # noqa: S311
    async with opened(url) as engine:
        for number in range(12):
            data = bytearray(whole)
            # Half of them in the headers, where most is decided.
            for _ in range(1 + 3 * number):
                place = dice.randrange(min(len(data), 12_288) if number % 2 else len(data))
                data[place if dice.random() < 0.5 else -1 - place] ^= 1 << dice.randrange(8)
            replaced(path, bytes(data))
            told = await asyncio.wait_for(outcome(engine), PATIENCE_S)
            assert str(path.parent) not in told
        replaced(path, whole)
        assert await outcome(engine) == "1000 rows"


OBSTACLES: dict[str, Callable[[Path], None]] = {
    "nothing": lambda path: None,
    "a FIFO": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "a dangling link": lambda path: path.symlink_to(path.with_name("nowhere")),
    "a link to itself": lambda path: path.symlink_to(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


async def test_what_is_no_file_gives_a_clear_error_and_the_file_comes_back(
    source: tuple[Path, str],
) -> None:
    path, url = source
    whole = path.read_bytes()
    async with opened(url) as engine:
        assert await outcome(engine) == "1000 rows"
        for name, make in OBSTACLES.items():
            path.unlink()
            make(path)
            told = await asyncio.wait_for(outcome(engine), PATIENCE_S)
            assert told.startswith("MountUnavailable: "), (name, told)
            assert str(path.parent) not in told
            if name == "a folder":
                path.rmdir()
            replaced(path, whole)
        assert await outcome(engine) == "1000 rows"


async def test_a_replaced_file_is_read_as_it_is_now(source: tuple[Path, str]) -> None:
    path, url = source
    make = write if path.suffix == ".duckdb" else write_parquet
    async with opened(url) as engine:
        for rows in (10, 2000, 1):
            make(path.with_name(f"other{path.suffix}"), rows).replace(path)
            assert await outcome(engine) == f"{rows} rows"


# -- statements that fail


async def test_an_endless_query_ends_at_its_deadline_and_the_next_one_works(
    source: tuple[Path, str],
) -> None:
    async with opened(source[1]) as engine:
        assert await count(engine) == 1000
        for ask in (engine.run_authored, engine.run_own):
            with pytest.raises(DeadlineExceeded):
                await asyncio.wait_for(
                    ask(Statement(ENDLESS), limit=1, within=DEADLINE_S), PATIENCE_S
                )
            assert await count(engine) == 1000


async def test_a_query_that_needs_too_much_memory_fails_plainly_and_the_next_one_works(
    source: tuple[Path, str],
) -> None:
    async with opened(source[1]) as engine:
        with pytest.raises(InvalidParameter, match="too much memory"):
            await engine.run_authored(Statement(HUNGRY), limit=1, within=PATIENCE_S)
        assert await count(engine) == 1000


async def test_a_worker_that_is_killed_is_replaced(source: tuple[Path, str]) -> None:
    before = children_of(os.getpid())
    async with opened(source[1]) as engine:
        for _ in range(3):
            (worker,) = children_of(os.getpid()) - before
            os.kill(worker, 9)
            assert await count(engine) == 1000


# -- writers

WRITES = """
import duckdb, sys

path, count = sys.argv[1], int(sys.argv[2])
for number in range(1, count + 1):
    with duckdb.connect(path) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t SELECT ?, 'x' FROM range(500)", [number])
        connection.execute("DELETE FROM t WHERE id = ?", [number - 5])
        connection.execute("COMMIT")
        if number % 3 == 0:
            connection.execute("CHECKPOINT")
"""


@pytest.mark.deep
async def test_a_writer_in_another_process_never_gives_a_torn_page(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER, name VARCHAR)")
    async with opened(f"duckdb:///{path}") as engine:
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITES, str(path), "25")
        )
        ending = asyncio.create_task(writer.wait())
        sql = "SELECT id, count(*) AS n FROM t GROUP BY id ORDER BY id"
        while not ending.done():
            with suppress(ResourceBusy, MountUnavailable):
                found = await engine.run_authored(Statement(sql), limit=1000, within=PATIENCE_S)
                rows = [(int(str(number)), count) for number, count in found.rows]
                first = rows[0][0] if rows else 0
                assert rows == [(first + place, 500) for place in range(len(rows))]
                assert len(rows) <= 5
            await asyncio.sleep(0)
        assert await ending == 0
        found = await engine.run_authored(Statement(sql), limit=1000, within=PATIENCE_S)
        assert found.rows == [(number, 500) for number in range(21, 26)]
