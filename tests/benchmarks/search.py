"""Searching trees of files by name, by word and by expression, beside `rg` and `grep`.

One tree has 100,000 generated files; the other is source code, for the order of hits.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from resource_server.catalog.catalog import Catalog
from resource_server.cli.runner import favour_the_loop
from resource_server.provider.search import Where
from resource_server.serving import server_builder
from tests.benchmarks import first_hits
from tests.benchmarks.table import Goal, interleaved, limit, show

FIRST_PAGE, ALL_PAGES, NEW_PROCESS = "first page", "all pages", "new process"
RG, GREP, FIND = "rg", "grep -r", "find -iname"
FILES_IN_DIRECTORY = 10
PACKAGE_FOLDERS = ("", "lib", "lib/internal", "src", "types")
RARE = "needleInTheHayStack"
RARE_FILES = 7
HEARTBEAT_S = 0.001
WORDS = (
    "const return value index module require function handler request response buffer stream "
    "length options callback error default async await config parse render element exports"
).split()


@dataclass(frozen=True)
class Case:
    """A query, and the commands that find the same files."""

    title: str
    query: str
    where: Where
    peers: dict[str, list[str]]
    goals: Sequence[Goal] = ()
    first_only: bool = False
    """Whether there are too many hits to ask for all of them."""
    files: int | None = None
    """How many files are found, where all are asked for."""


CASES = (
    Case(
        "by name, a rare part",
        "package-00077",
        "names",
        {FIND: ["find", "-iname", "*package-00077*"]},
        [Goal(FIND, "<=", 2)],
        files=1,
    ),
    Case(
        "by name, a part of a tenth of all names",
        "module_7",
        "names",
        {FIND: ["find", "-iname", "*module_7*"]},
        [Goal(FIND, "<=", 3)],
        first_only=True,
    ),
    Case(
        "in text, a rare word in any case",
        RARE.lower(),
        "text",
        {RG: ["rg", "-il", RARE], GREP: ["grep", "-rilF", RARE, "."]},
        [Goal(RG, "<=", 3), Goal(GREP, "<=", 2)],
        files=RARE_FILES,
    ),
    Case(
        "in text, a rare expression",
        r"/needle\w+Stack/",
        "text",
        {RG: ["rg", "-l", r"needle\w+Stack"], GREP: ["grep", "-rlE", r"needle\w+Stack", "."]},
        [Goal(RG, "<=", 3), Goal(GREP, "<=", 2)],
        files=RARE_FILES,
    ),
    Case(
        "in text, a word of every file",
        "exports",
        "text",
        {RG: ["rg", "-il", "exports"]},
        [Goal(RG, "<=", 0.1)],
        first_only=True,
    ),
)


def run(*, quick: bool) -> None:
    """Print times of first pages and whole searches, and what the loop is kept from meanwhile."""
    count, rounds = (20_000, 3) if quick else (100_000, 5)
    favour_the_loop()
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "modules"
        _make_tree(tree, count)
        print(f"\n{count:,} files of code")
        with asyncio.Runner() as runner:
            catalog = _catalog(tree)
            begin = time.perf_counter()
            runner.run(_search(catalog, CASES[2]))
            limit("first search of all", (time.perf_counter() - begin) * 1_000, None, "ms")
            for case in CASES:
                _compare(runner, catalog, tree, case, rounds)
            runner.run(_blocked(catalog))
            runner.run(catalog.__aexit__())
            _compare_with_index(runner, tree, count, rounds)
        if (source := first_hits.compare(_catalog, Path(scratch))) is not None:
            _compare_new_processes(*source, rounds)


def _compare_with_index(runner: asyncio.Runner, tree: Path, count: int, rounds: int) -> None:
    manifest = tree.parent / "mcp-resources.yaml"
    manifest.write_text(f"roots: {{modules: {{path: {tree.name}, index: true, cache: cache}}}}")
    begin = time.perf_counter()
    catalog = _catalog(manifest)
    runner.run(catalog.start())
    provider = catalog.mounts[0].provider
    while (state := provider.index_state) is None or not state.is_complete:
        time.sleep(0.1)
    limit("documents indexed a second", count / (time.perf_counter() - begin), None, "")
    text = sum(file.stat().st_size for file in tree.rglob("*.js"))
    limit("size of the index, of the text", state.size / text, 0.6, "x")
    for case in CASES[2:4]:
        goals = [Goal(RG, "<=", 0.25)]
        _compare(
            runner,
            catalog,
            tree,
            replace(case, title=f"{case.title}, indexed", goals=goals),
            rounds,
        )
    runner.run(catalog.__aexit__())


def _compare_new_processes(tree: Path, query: str, rounds: int) -> None:
    measures: dict[str, Callable[[], float]] = {
        NEW_PROCESS: lambda: first_hits.first_search(tree, query)
    }
    if shutil.which("rg"):
        measures[RG] = _timed(["rg", "-n", query, "."], tree)
    title = f"the first search of {tree.name} for a definition"
    show(title, "ms", interleaved(measures, rounds), [Goal(RG, "<=", 3)])


def _catalog(folder: Path) -> Catalog:
    manifest = server_builder.load_manifest(str(folder), allow_plugins=False)
    return server_builder.build_server(manifest, allow_plugins=False).catalog


def _make_tree(root: Path, count: int) -> None:
    """Make folders of packages with files of 5 to 40 lines; in a few there is the rare word."""
    chance = random.Random(1)  # noqa: S311  the same tree each time
    rare = set(chance.sample(range(count), RARE_FILES))
    made = 0
    for package in range(count // FILES_IN_DIRECTORY // len(PACKAGE_FOLDERS)):
        for folder in PACKAGE_FOLDERS:
            directory = root / f"package-{package:05}" / folder
            directory.mkdir(parents=True, exist_ok=True)
            for number in range(FILES_IN_DIRECTORY):
                lines = [
                    " ".join(chance.choices(WORDS, k=8)) + ";"
                    for _ in range(chance.choice((5, 10, 20, 40)))
                ]
                lines[1] = "module.exports = {};" if made not in rare else f"exports.{RARE} = 1;"
                (directory / f"module_{number}.js").write_text("\n".join(lines) + "\n", "utf-8")
                made += 1


async def _search(catalog: Catalog, case: Case) -> list[str]:
    """Return the URIs of a search: of its first page, or of all."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await catalog.search(case.query, where=case.where, after=after)
        found += [hit.entry.uri for hit in page.hits]
        after = page.next_cursor
        if after is None or case.first_only:
            return found


def _compare(runner: asyncio.Runner, catalog: Catalog, tree: Path, case: Case, rounds: int) -> None:
    peers = {name: one for name, one in case.peers.items() if shutil.which(one[0])}
    found = runner.run(_search(catalog, case))
    assert case.files is None or len(found) == case.files, found
    ours = {uri.partition(f"{tree.name}/")[2] for uri in found}
    for name, command in peers.items():
        output = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
        theirs = {line.removeprefix("./") for line in output.stdout.splitlines()}
        assert ours <= theirs, f"{name} does not find {ours - theirs}"
        assert case.first_only or ours == theirs, f"only {name} finds {theirs - ours}"

    def search() -> float:
        begin = time.perf_counter()
        runner.run(_search(catalog, case))
        return (time.perf_counter() - begin) * 1_000

    measures: dict[str, Callable[[], float]] = {
        FIRST_PAGE if case.first_only else ALL_PAGES: search
    }
    for name, command in peers.items():
        measures[name] = _timed(command, tree)
    show(case.title, "ms", interleaved(measures, rounds), case.goals)


def _timed(command: list[str], folder: Path) -> Callable[[], float]:
    def run_it() -> float:
        begin = time.perf_counter()
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
        return (time.perf_counter() - begin) * 1_000

    return run_it


async def _blocked(catalog: Catalog) -> None:
    late: list[float] = []

    async def heart() -> None:
        while True:
            begin = time.perf_counter()
            await asyncio.sleep(HEARTBEAT_S)
            late.append((time.perf_counter() - begin - HEARTBEAT_S) * 1_000)

    print("\nhow late the event loop is meanwhile, p50")
    for case in CASES:
        beating = asyncio.create_task(heart())
        await _search(catalog, case)
        beating.cancel()
        late.sort()
        limit(case.title, late[len(late) // 2] if late else 0, 1, "ms")
        late.clear()
