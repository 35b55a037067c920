"""The figures of docs/scaling.md, from measured costs; `python -m tests.scaling` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from tests import reference
from tests.benchmarks.scaling import COSTS, PER_CLIENT_S, SUBSCRIPTIONS, Cost

PAGE = reference.DOCS / "scaling.md"
UTILISATION = 0.6
"""Share of a core that is planned to be used, so that peaks are answered soon."""
CONNECTED = 0.1
"""Share of the clients that is connected at a time."""
SESSION_S = 3600.0
"""How long a client is connected."""
CHANGED_S = 60.0
"""Time between two changes of what a client is subscribed to."""
PEOPLE = (1_000, 1_000_000, 100_000_000)
POOL = 6
"""Connections of a server process to one database (`POOL_SIZE`, and those of declared queries)."""
_COSTS = (
    "", "server, ms", "database, ms", "commands to Redis", "Redis, ms", "memory, KB", "in Redis, KB"
)  # fmt: skip
_HELD = ("session", "stream", "subscriptions")


def read() -> tuple[Mapping[str, Cost], Mapping[int, tuple[Cost, Cost]]]:
    """Return the costs, and by clients what a load should cost and did."""
    written = json.loads(COSTS.read_text("utf-8"))
    costs = {name: Cost(*values) for name, values in written["costs"].items()}
    loads = {int(size): (Cost(*a), Cost(*b)) for size, (a, b) in written["loads"].items()}
    return costs, loads


def of_client(costs: Mapping[str, Cost]) -> Cost:
    """Return what one connected client costs in a second, and in memory while it is connected."""
    held = Cost()
    for name in _HELD:
        held = held.plus(costs[name])
    spent = held.times(1 / SESSION_S).plus(costs["stream held"])
    spent = spent.plus(costs["notification"].times(1 / CHANGED_S))
    for name, rate in PER_CLIENT_S.items():
        spent = spent.plus(costs[name].times(rate))
    return spent._replace(memory_kb=held.memory_kb, redis_kb=held.redis_kb)


def write() -> None:
    """Write the tables of the page."""
    for section, table in SECTIONS.items():
        reference.write(section, PAGE, table())


def _costs() -> str:
    costs, _ = read()
    rows = [
        (words, *_row(costs[name]))
        for name, words in {
            "read": "read a file of 1 KB",
            "rows": "read a page of 100 rows of PostgreSQL",
            "list": "list a page of 100 entries",
            "search": "search 1,000 small files, names and text",
            "conversion": "convert a document of a page or two (nine formats), once per version",
            "session": "begin a session",
            "stream": "open its stream of notifications",
            "subscriptions": f"subscribe to {SUBSCRIPTIONS} resources",
            "stream held": "hold a session with its stream, a second",
            "notification": "notify one stream of a change",
            "idle": "a process without clients (two folders, one database), a second",
        }.items()
    ]
    return _table(_COSTS, rows)


def _loads() -> str:
    _, loads = read()
    rows: list[Sequence[str]] = []
    for size, (expected, found) in loads.items():
        for field in ("processor_ms", "database_ms", "redis_ms", "memory_kb"):
            ours, theirs = getattr(expected, field), getattr(found, field)
            error = (ours - theirs) / theirs if theirs else 0.0
            words = (_WORDS[field], f"{ours:,.0f}", f"{theirs:,.0f}", f"{error:+.0%}")
            rows.append((f"{size:,}", *words))
    return _table(("clients", "", "computed", "measured", "error"), rows)


def _replicas() -> str:
    costs, _ = read()
    client = of_client(costs)
    rows: list[Sequence[str]] = []
    for people in PEOPLE:
        connected = people * CONNECTED
        cores = connected * client.processor_ms / 1_000 / UTILISATION
        processes = max(2, _up(cores))
        database = connected * client.database_ms + processes * costs["idle"].database_ms
        rows.append(
            (
                f"{people:,}",
                f"{connected:,.0f}",
                f"{connected * sum(PER_CLIENT_S.values()):,.0f}",
                f"{processes:,}",
                _memory(connected * client.memory_kb),
                _cores(connected * client.redis_ms / 1_000 / UTILISATION),
                _memory(connected * client.redis_kb),
                _cores(database / 1_000 / UTILISATION),
                f"{processes * POOL:,}",
            )
        )
    title = (
        "clients", "connected", "requests/s", "server processes, a core each", "memory of sessions",
        "Redis, cores", "its memory", "PostgreSQL, cores", "its connections",
    )  # fmt: skip
    return _table(title, rows)


def _ends() -> str:
    costs, _ = read()
    client = of_client(costs)
    core_ms = UTILISATION * 1_000
    rows = [
        (
            "one process",
            f"{core_ms / client.processor_ms:,.0f}",
            "its core; `--workers`, then more servers",
        ),
        (
            "one Redis",
            f"{core_ms / client.redis_ms:,.0f}",
            "its core; a fleet for each share of the clients, with a store of its own",
        ),
        (
            "one PostgreSQL of four cores",
            f"{4 * core_ms / client.database_ms:,.0f}",
            "its cores; read replicas, each in the `url` of a share of the servers",
        ),
        (
            "one PostgreSQL of 500 connections",
            f"{500 / POOL * core_ms / client.processor_ms:,.0f}",
            "connections; PgBouncer before it",
        ),
    ]
    return _table(("what", "connected clients", "where it ends, and what follows"), rows)


_WORDS = {
    "processor_ms": "server, ms",
    "database_ms": "database, ms",
    "redis_ms": "Redis, ms",
    "memory_kb": "memory, KB",
}
SECTIONS: Mapping[str, Callable[[], str]] = {
    "costs": _costs,
    "loads": _loads,
    "replicas": _replicas,
    "ends": _ends,
}


def _row(cost: Cost) -> Sequence[str]:
    return (
        *(_number(value) for value in cost[:4]),
        *(_number(value) if value >= 0.05 else "" for value in cost[4:]),
    )


def _number(value: float) -> str:
    return "" if value < 0.0005 else f"{value:,.2f}" if value >= 0.1 else f"{value:.3f}"


def _up(value: float) -> int:
    return int(-(-value // 1))


def _cores(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def _memory(kilobytes: float) -> str:
    for unit in ("KB", "MB", "GB"):
        if kilobytes < 1024 or unit == "GB":
            return f"{kilobytes:,.0f} {unit}"
        kilobytes /= 1024
    raise AssertionError


def _table(title: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [title, ["---"] * len(title), *rows]
    return "".join(f"| {' | '.join(each)} |\n" for each in lines)


if __name__ == "__main__":
    write()
