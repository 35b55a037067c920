"""A program that writes a database at random.

Each line of its input has a URL, a seed and the number of transactions.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys

from tests.providers.database.owners import Owner, owner_of
from tests.waiting import pause

TABLES = (
    "create table t (id integer primary key, x integer, y integer)",
    "create table pairs (a integer, b integer, x integer, primary key (a, b))",
    "create table words (k varchar(20) primary key, x integer)",
    "create view few as select id, x from t where x < 3",
)
WORDS = ("a", "b/c", "~d", "..", "😀", "0")
_KEYS = 12


class Writer:
    """Random transactions; one that conflicts with another writer is rolled back."""

    def __init__(self, owner: Owner, seed: int) -> None:
        self._owner = owner
        self._dice = random.Random(seed)  # noqa: S311

    async def run(self, count: int) -> None:
        for _ in range(count):
            try:
                await self._transaction()
            except Exception as error:
                if not _is_conflict(error):
                    raise
                await self._owner.run("rollback")

    async def _transaction(self) -> None:
        statements = [self._statement() for _ in range(self._dice.choice((1, 1, 2, 5)))]
        if len(statements) == 1 and self._dice.random() < 0.5:
            await self._owner.run(*statements)
            return
        await self._owner.run("begin", *statements)
        # Lets other writers and the watch proceed.
        await pause(self._dice.choice((0, 0, 0, 0.005)))
        await self._owner.run(self._dice.choice(("commit", "commit", "commit", "rollback")))

    def _statement(self) -> str:
        dice = self._dice
        value, key = dice.randrange(6), dice.randrange(_KEYS)
        table, where, row = dice.choice(
            (
                ("t", f"id = {key}", f"{key}, {value}, {dice.randrange(3)}"),
                ("t", f"id > {key}", f"{key}, {value}, 0"),
                ("pairs", f"a = {key % 3} and b = {value}", f"{key % 3}, {value}, {value}"),
                ("pairs", f"a = {key % 3}", f"{key % 3}, {value}, 0"),
                ("words", f"k = '{dice.choice(WORDS)}'", f"'{dice.choice(WORDS)}', {value}"),
            )
        )
        kind = dice.random()
        if kind < 0.4:
            return self._owner.insertion.format(table, row)
        if kind < 0.75:
            return f"update {table} set x = {value} where {where}"
        if kind < 0.8:
            return f"update {table} set x = x where {where}"
        return f"delete from {table} where {where}"


def _is_conflict(error: Exception) -> bool:
    """Return whether another writer is the reason for an error: a deadlock or a lock."""
    if isinstance(error, sqlite3.OperationalError):
        return "locked" in str(error)
    return getattr(error, "sqlstate", "") == "40P01" or error.args[:1] in ((1213,), (1020,))


async def main() -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        url, seed, count = line.split()
        async with owner_of(url) as owner:
            await Writer(owner, int(seed)).run(int(count))
        print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
