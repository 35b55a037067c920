"""Searching a source tree for classes and functions by name: is the definition a first hit?

The tree is Django's, if pip can download its source, otherwise the standard library of this Python.
A name counts if the tree has one definition of it at the left margin.
"""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.federated_search import SearchOptions
from resource_server.cli import server_builder
from tests.benchmarks.table import limit

NAMES = 40
FIRST = 3
LIMIT = 100
"""Matches on a page, as models get them."""
_DEFINITION = re.compile(r"^(class|(?:async )?def) (\w{4,})", re.MULTILINE)
_OTHER_TREES = {"site-packages", "__pycache__"}


def source_tree(scratch: Path) -> Path:
    """Return a folder of some thousand source files."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    if subprocess.run([*pip, "django"], cwd=scratch, capture_output=True).returncode:
        return Path(sysconfig.get_paths()["stdlib"])
    (archive,) = scratch.glob("[Dd]jango-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(scratch, filter="data")
    return scratch / archive.name.removesuffix(".tar.gz")


def compare(open_catalog: Callable[[Path], Catalog], tree: Path) -> str:
    """Print how many definitions are among the first hits, and return one of the queries."""
    found: dict[str, list[tuple[str, str]]] = {}
    for file in sorted(tree.rglob("*.py")):
        if not _OTHER_TREES.intersection(file.parts):
            for keyword, name in _DEFINITION.findall(file.read_text("utf-8", "replace")):
                found.setdefault(name, []).append((keyword, file.relative_to(tree).as_posix()))
    once = sorted(name for name, places in found.items() if len(places) == 1)
    drawn = random.Random(1).sample(once, NAMES)  # noqa: S311  the same names each time
    print(f"\n{NAMES} of {len(once):,} classes and functions of {tree.name}: not among the {FIRST}")
    print("first hits of a search")
    for title, in_text, with_keyword in (
        ("for the name", False, False),
        ("for the name, in text", True, False),
        ("with its keyword", False, True),
    ):
        queries = {
            f"{found[name][0][0]} {name}" if with_keyword else name: found[name][0][1]
            for name in drawn
        }
        missed = asyncio.run(_missed(open_catalog(tree), queries, in_text=in_text))
        limit(f"{title} {' '.join(missed)}", len(missed), 0, "names")
    return f"{found[drawn[0]][0][0]} {drawn[0]}"


async def _missed(catalog: Catalog, queries: dict[str, str], *, in_text: bool) -> list[str]:
    missed: list[str] = []
    options, where = SearchOptions(count=True), "text" if in_text else None
    for query, path in queries.items():
        page = await catalog.search(query, where=where, limit=LIMIT, options=options)
        first = list(dict.fromkeys(hit.entry.uri for hit in page.hits))[:FIRST]
        if not any(uri.endswith(f"/{path}") for uri in first):
            missed.append(query)
    await catalog.__aexit__()
    return missed


def first_search(tree: Path, query: str) -> float:
    """Return the milliseconds of a first search, in a new process, of the whole tree."""
    code = f"from tests.benchmarks import first_hits; first_hits.search({str(tree)!r}, {query!r})"
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - begin) * 1_000


def search(tree: str, query: str) -> None:
    """Search a tree for a text, as a process of its own."""

    async def page() -> None:
        manifest = server_builder.load_manifest(tree, allow_plugins=False)
        catalog = server_builder.build_server(manifest, allow_plugins=False).catalog
        await catalog.search(query, limit=LIMIT, options=SearchOptions(count=True))
        await catalog.__aexit__()

    asyncio.run(page())
