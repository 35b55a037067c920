"""Changes that nobody was told of: hard cases, with this server and with plain watchfiles.

What a file is, is looked at again with each event of it. A change is lost if the file is another
once no event has come for two seconds, or, of a new file, if it is not known by then.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks import servers
from tests.benchmarks import witness as witnesses
from tests.benchmarks.witness import Printer, Subscriber, Witness

MODERN = "2026-07-28"
HANDSHAKE = "handshake"
WATCHFILES = servers.WATCHFILES
WITNESSES: Mapping[str, Callable[[Path], Witness]] = {
    HANDSHAKE: partial(Subscriber, modern=False),
    MODERN: partial(Subscriber, modern=True),
    WATCHFILES: partial(Printer, servers.watchfiles),
}
QUIET_S = 2.0
AT_MOST_S = 20.0
"""The sweep that would find everything comes after 30 seconds."""
STEP_S = 0.01


@dataclass(frozen=True)
class Step:
    """Something that happens in a folder, and what is to be known once it has."""

    act: Callable[[], None]
    changed: Sequence[str] = ()
    """Files that are other ones afterwards; they are subscribed to before."""
    created: Sequence[str] = ()
    stopped: bool = False
    """Whether the process that watches stands still meanwhile."""
    at_once: bool = False
    """Whether it comes right after the first page of the list. Watchfiles has none, and waits."""


Case: TypeAlias = Callable[[Path], list[Step]]
"""Fills a folder and returns what will happen in it."""


def show(scratch: Path, *, quick: bool) -> None:
    """Print how many changes were lost in each case."""
    names = [name for name in WITNESSES if not (quick and name == MODERN)]
    print("\nchanges lost, two seconds after the last event")
    print(f"  {'':<32}{'changes':>9}" + "".join(f"{name:>12}" for name in names) + "  goal")
    for number, (title, case) in enumerate(CASES.items()):
        lost: dict[str, int] = {}
        count = 0
        for name in names:
            folder = scratch / f"{number}-{name}" / "folder"
            folder.mkdir(parents=True)
            lost[name], count = _lost(case(folder), WITNESSES[name], folder)
        ours = sum(lost[name] for name in names if name != WATCHFILES)
        line = f"  {title:<32}{count:>9,}" + "".join(f"{lost[name]:>12,}" for name in names)
        print(f"{line}  0 {'MISSED' if ours else 'met'}")


def _lost(steps: Sequence[Step], make: Callable[[Path], Witness], folder: Path) -> tuple[int, int]:
    """Return how many changes a witness was not told of, and of how many."""
    lost = count = 0
    with make(folder) as witness:
        if isinstance(witness, Subscriber):
            # What it has seen is outdated by a change from now on.
            witness.request("resources/list")
        if not steps[0].at_once or isinstance(witness, Printer):
            witnesses.until_it_watches(witness, folder)
        knowledge = Knowledge(witness)
        for step in steps:
            knowledge.subscribe(step.changed)
            _perform(step, witness, knowledge)
            lost += knowledge.lost(step)
            count += len(step.changed) + len(step.created)
    return lost, count


def _perform(step: Step, witness: Witness, knowledge: Knowledge) -> None:
    if step.stopped:
        witnesses.stop(witness)
        try:
            step.act()
        finally:
            witnesses.resume(witness)
    else:
        # Beside the thread that listens: what is told meanwhile is looked at meanwhile.
        with ThreadPoolExecutor(1) as pool:
            acting = pool.submit(step.act)
            while not acting.done():
                knowledge.take(STEP_S)
            acting.result()
    until = time.perf_counter() + AT_MOST_S
    while knowledge.take(QUIET_S):
        assert time.perf_counter() < until, "events without end"


class Knowledge:
    """What somebody knows of a folder who looks at a thing when told of it, and never else."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._versions: dict[str, object] = {}
        self._listed: set[str] = set()

    def subscribe(self, names: Sequence[str]) -> None:
        """Begin to be told of files; know them as they are."""
        new = [name for name in names if name not in self._versions]
        self._witness.subscribe(new)
        self._versions.update((name, self._witness.version(name)) for name in new)

    def take(self, within: float) -> bool:
        """Take in the next event; say if there was one in so many seconds."""
        event = self._witness.event(within)
        if event is None:
            return False
        if event.name is None:
            self._listed = self._witness.listing()
        else:
            self._versions[event.name] = self._witness.version(event.name)
        return True

    def lost(self, step: Step) -> int:
        """Return how much of what a step did is not known."""
        version = self._witness.version
        changed = [name for name in step.changed if self._versions[name] != version(name)]
        known = self._listed.union(self._versions)
        return len(changed) + len([name for name in step.created if name not in known])


def _write(folder: Path, names: Sequence[str], text: str) -> None:
    for name in names:
        (folder / name).write_text(text, "utf-8")


def _touch(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).touch()


def _files(folder: Path, directories: int, each: int) -> list[str]:
    """Make directories of files; return the names of these."""
    names: list[str] = []
    for directory in range(directories):
        (folder / f"d{directory:02}").mkdir(parents=True)
        names += [f"d{directory:02}/file_{number:03}.txt" for number in range(each)]
    _write(folder, names, "before\n")
    return names


def _while_stopped(folder: Path) -> list[Step]:
    names = _files(folder, 20, 100)
    created = [f"{name[:-4]}_{number}.txt" for name in names for number in range(15)]

    def act() -> None:
        for at, name in enumerate(names):
            _touch(folder, created[at * 15 : at * 15 + 15])
            _write(folder, [name], "after it\n")

    return [Step(act, changed=names, created=created, stopped=True)]


def _at_once(folder: Path) -> list[Step]:
    # So many that adding them to the watch takes longer than the first page.
    for number in range(10_000):
        (folder / f"d{number // 100:02}/e{number % 100:02}").mkdir(parents=True)
    name = "d00/e00/file.txt"
    return [Step(partial(_touch, folder, [name]), created=[name], at_once=True)]


def _new_paths(folder: Path) -> list[Step]:
    names = [f"a{number:04}/b/c/file.txt" for number in range(2_000)]

    def act() -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True)
            (folder / name).touch()

    return [Step(act, created=names)]


def _atomic_saves(folder: Path) -> list[Step]:
    names = _files(folder, 10, 10)

    def act() -> None:
        for number in range(500):
            path = folder / names[number % len(names)]
            temporary = path.with_suffix(".tmp")
            temporary.write_text(f"save {number}\n", "utf-8")
            temporary.replace(path)

    return [Step(act, changed=names)]


def _moved_in(folder: Path) -> list[Step]:
    outside = folder.with_name("outside")
    names = [f"tree/{name}" for name in _files(outside, 10, 10)]
    late = [f"tree/d{number:02}/late.txt" for number in range(10)]

    def move() -> None:
        outside.rename(folder / "tree")
        _touch(folder, late)

    written = partial(_write, folder, names, "after it\n")
    return [Step(move, created=[*names, *late]), Step(written, changed=names)]


def _new_root(folder: Path) -> list[Step]:
    names = _files(folder, 5, 10)

    def recreate() -> None:
        shutil.rmtree(folder)
        _files(folder, 5, 10)

    written = partial(_write, folder, names, "after it\n")
    return [Step(recreate, changed=names), Step(written, changed=names)]


def _bad_names(folder: Path) -> list[Step]:
    good = _files(folder, 1, 10)
    bad = [os.fsdecode(b"d00/caf\xe9_%d.txt" % number) for number in range(10)]
    new = [os.fsdecode(b"d00/na\xefve_%d.txt" % number) for number in range(10)]
    _write(folder, bad, "before\n")
    written = partial(_write, folder, [*bad, *good], "after it\n")
    return [Step(partial(_touch, folder, new), created=new), Step(written, changed=[*bad, *good])]


CASES: Mapping[str, Case] = {
    "made and written while stopped": _while_stopped,
    "made right after the first page": _at_once,
    "mkdir -p a/b/c, touch a file": _new_paths,
    "files saved by rename, 5 times": _atomic_saves,
    "a tree moved in, then writes": _moved_in,
    "root replaced, then writes": _new_root,
    "names that are not UTF-8": _bad_names,
}
