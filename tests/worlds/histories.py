"""Histories: what happens in a world, step by step, made by dice."""

from __future__ import annotations

import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.providers.database.writer import TABLES, WORDS
from tests.waiting import pause
from tests.worlds.engines import Engine
from tests.worlds.live_world import FILES, NOTES, ROWS, World

CLIENTS = 2
WRITERS = 2


class Step(ABC):
    """Something that happens in a world."""

    @abstractmethod
    async def happen(self, world: World) -> None:
        """Let it happen; what cannot be done, is not done."""


@dataclass(frozen=True)
class Write(Step):
    """An application runs statements on its connection to the database."""

    writer: int
    statements: tuple[str, ...]

    async def happen(self, world: World) -> None:
        if world.writers:
            await world.writers[self.writer].write(*self.statements)


@dataclass(frozen=True)
class Put(Step):
    """A file is written in place, or saved beside it first; with None it is removed."""

    path: str
    text: str | None
    is_saved: bool = False

    async def happen(self, world: World) -> None:
        path = world.folder / self.path
        with suppress(OSError):
            if self.text is None:
                _remove(path)
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            if not self.is_saved:
                path.write_text(self.text)
                return
            beside = path.with_name(f".{path.name}.tmp")
            beside.write_text(self.text)
            beside.replace(path)


@dataclass(frozen=True)
class Move(Step):
    """A file or directory gets another name."""

    path: str
    to: str

    async def happen(self, world: World) -> None:
        with suppress(OSError):
            (world.folder / self.path).rename(world.folder / self.to)


@dataclass(frozen=True)
class Pin(Step):
    """A note is written, or with None removed."""

    name: str
    text: str | None

    async def happen(self, world: World) -> None:
        world.notes.pop(self.name, None)
        if self.text is not None:
            world.notes[self.name] = self.text
        world.write_notes()


@dataclass(frozen=True)
class Subscribe(Step):
    """A client subscribes to a resource, and reads it."""

    client: int
    uri: str

    async def happen(self, world: World) -> None:
        await world.clients[self.client].subscribe(self.uri)


@dataclass(frozen=True)
class Unsubscribe(Step):
    """A client unsubscribes from a resource."""

    client: int
    uri: str

    async def happen(self, world: World) -> None:
        await world.clients[self.client].unsubscribe(self.uri)


@dataclass(frozen=True)
class Reload(Step):
    """The manifest is written anew."""

    options: frozenset[str]

    async def happen(self, world: World) -> None:
        world.write_manifest(self.options)


@dataclass(frozen=True)
class Interrupt(Step):
    """A watch ends for a reason of its own: lost connections, a replaced folder, a bug."""

    what: str
    """`files`, `rows` or `notes`."""

    async def happen(self, world: World) -> None:
        match self.what:
            case "files":
                away = world.folder.with_name("away")
                world.folder.rename(away)
                await pause(0.02)
                away.rename(world.folder)
            case "rows":
                await world.engine.disconnect(world.urls)
            case _:
                world.place.joinpath("notes.json.fail").touch()


@dataclass(frozen=True)
class Wait(Step):
    """Some time passes."""

    ms: int

    async def happen(self, world: World) -> None:
        await pause(self.ms / 1000)


@dataclass(frozen=True)
class History:
    """All that happens in one world."""

    engine: str
    steps: tuple[Step, ...]


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


# -- dice

_NAMES = ("x.txt", "y.txt", "z.log", "a", "a/x.txt", "a/b", "a/b/x.txt", ".env")
_TEXTS = ("one", "two", "other", "", None)
_MANIFESTS = ("where", "hide", "include", "unlisted-files", "moved-rows", "no-t", "no-notes")
_PATHS = (
    *("t", "t/~rows", "t/~schema", "t/0", "t/1", "t/2", "t/3", "t/1/~cell/x", "t/2/~cell/y"),
    *("pairs", "pairs/~rows", "pairs/0", "pairs/1", "pairs/0/0", "pairs/1/2", "pairs/2/1"),
    *("words", "words/~rows", "words/a", "words/~tb~2Fc", "words/~t~7Ed", "words/0"),
    *("few", "few/~rows", "few/0", "few/1", "peers", "more", "t/~rows?limit=2"),
)
_DEFINITIONS = (
    "create index by_x on t (x)",
    "create unique index by_y on pairs (a, b)",
    "drop index by_x",
    "alter table t add column z integer",
    "alter table t drop column z",
    "drop table words",
    TABLES[2],
    "drop table t",
    TABLES[0],
    "drop view few",
    TABLES[3],
    "alter table pairs rename to peers",
    "alter table peers rename to pairs",
    "create table more (id integer primary key)",
    "drop table more",
)
_CHANGES = (
    "update t set x = {value} where id = {key}",
    "update t set y = {value} where id > {key}",
    "update t set id = id + 1 where id = {key}",
    "update pairs set x = {value} where a = {key}",
    "update words set x = {value} where k = '{word}'",
    "delete from t where id = {key}",
    "delete from pairs where a = {key}",
    "delete from words where k = '{word}'",
)


class HistoryDice:
    """Draws steps from one source of randomness."""

    def __init__(self, source: random.Random, engine: Engine) -> None:
        self._source = source
        self._choice = source.choice
        self._engine = engine

    def steps(self) -> Sequence[Step]:
        """Return subscriptions, and then everything else."""
        begun = [self._subscription() for _ in range(self._source.randrange(20))]
        return (*begun, *(self._step() for _ in range(self._source.choice((5, 20, 40)))))

    def _step(self) -> Step:
        draw = self._source.random()
        if draw < 0.5:
            return self._write()
        if draw < 0.65:
            return self._subscription()
        if draw < 0.7:
            return Unsubscribe(self._source.randrange(CLIENTS), self._uri())
        if draw < 0.85:
            return self._elsewhere()
        if draw < 0.95:
            return Wait(self._choice((1, 5, 20, 100, 600)))
        if draw < 0.98:
            return Interrupt(self._choice(("files", "rows", "notes")))
        return Reload(frozenset(self._source.sample(_MANIFESTS, self._source.randrange(3))))

    def _subscription(self) -> Step:
        return Subscribe(self._source.randrange(CLIENTS), self._uri())

    def _uri(self) -> str:
        draw = self._source.random()
        if draw < 0.7:
            return f"{ROWS}{self._engine.prefix}{self._choice(_PATHS)}"
        others = (ROWS, f"{ROWS}~query/sums", *(f"{NOTES}{name}" for name in ("", "one", "two")))
        files = tuple(f"{FILES}{name}" for name in ("", *_NAMES))
        return self._choice(others if draw < 0.85 else files)

    def _elsewhere(self) -> Step:
        """Return a change of files or notes."""
        match self._source.randrange(5):
            case 0:
                return Move(self._choice(_NAMES), self._choice(_NAMES))
            case 1:
                return Put(
                    self._choice((".gitignore", "a/.gitignore")), self._choice(("x.txt", None))
                )
            case 2 | 3:
                is_saved = self._source.random() < 0.5
                return Put(self._choice(_NAMES), self._choice(_TEXTS), is_saved)
            case _:
                return Pin(self._choice(("one", "two")), self._choice(_TEXTS))

    def _write(self) -> Step:
        """Return statements each by itself, a whole transaction, or part of one."""
        statements = [self._statement() for _ in range(self._source.randrange(1, 4))]
        match self._source.randrange(10):
            case 0:
                statements = ["begin", *statements]
            case 1:
                statements = [*statements, "commit"]
            case 2:
                statements = [*statements, "rollback"]
            case 3 | 4 | 5 | 6:
                statements = ["begin", *statements, "commit"]
            case _:
                pass
        return Write(self._source.randrange(WRITERS), tuple(statements))

    def _statement(self) -> str:
        key, value = self._source.randrange(6), self._source.randrange(6)
        word = self._choice(WORDS)
        into = self._engine.insertion.format
        draw = self._source.random()
        if draw < 0.08:
            return self._choice(_DEFINITIONS)
        if draw < 0.6:
            return self._choice(_CHANGES).format(key=key, value=value, word=word)
        insertions = (
            into("t", f"{key}, {value}, {value}"),
            into("pairs", f"{key % 3}, {value}, {value}"),
            into("words", f"'{word}', {value}"),
        )
        return self._choice(insertions)
