"""Searching published packages for names and headings: is their document a first hit?

A name counts if one file defines it at the left margin, a heading if one page has it. Of a heading,
the words are searched for, in the folder of the docs.
"""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.federated_search import SearchOptions
from resource_server.serving import server_builder
from tests.benchmarks.table import limit

DRAWN = 40
FIRST = 3
MISSED = 2
"""Maximum of those drawn that may be missed, of Django's names none."""
LIMIT = 100
"""Matches on a page, as models get them."""
_MIN_LENGTH = 4
_PIP = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
_NPM = ["npm", "pack", "--silent"]
_PYTHON = r"^(class|(?:async )?def) (\w+)"
_TYPESCRIPT = (
    r"^export (?:(?:declare|default|async|abstract) )*"
    r"(class|function|interface|type|enum|const enum|const) (\w+)"
)
_UNDERLINED = r"""^()(\S.*)\n([=~^"*#'+.-])\3{2,}$"""
_MARKDOWN = r"^#{1,6} ()(.+?)[ #]*$"
_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r":[\w:]+:(?=`)|<[^<>]*>(?=`)|(?<=\])\([^()]*\)")
"""Markup of reStructuredText and targets of links, which nobody types."""
_WORD = re.compile(r"\w(?:[\w.'/-]*\w)?")


@dataclass(frozen=True)
class Corpus:
    """A folder of a package, and the files whose names or headings are searched for in it."""

    title: str
    download: Sequence[str]
    folder: str
    files: str
    pattern: str
    """Has the groups keyword (empty for headings) and name."""


CORPORA = (
    Corpus("Django, names", [*_PIP, "Django==5.2.8"], ".", "**/*.py", _PYTHON),
    Corpus("RxJS, names", [*_NPM, "rxjs@7.8.2"], ".", "src/**/*.ts", _TYPESCRIPT),
    Corpus("Effect, names", [*_NPM, "effect@4.1.0"], ".", "src/**/*.ts", _TYPESCRIPT),
    Corpus("Django, headings", [*_PIP, "Django==5.2.8"], "docs", "**/*.txt", _UNDERLINED),
    Corpus("Fastify, headings", [*_NPM, "fastify@5.12.8"], "docs", "**/*.md", _MARKDOWN),
)


def compare(open_catalog: Callable[[Path], Catalog], scratch: Path) -> tuple[Path, str] | None:
    """Print how many definitions and headings are no first hits.

    Returns the first tree and a query in it, or None if it cannot be downloaded.
    """
    print(f"\n{DRAWN} names or headings: not among the {FIRST} first hits of a search")
    first: tuple[Path, str] | None = None
    for corpus in CORPORA:
        tree = _downloaded(corpus, scratch)
        if tree is None:
            print(f"  {corpus.title}: not downloaded")
            continue
        places = _drawn(corpus, tree)
        by_name = {name: path for name, (_, path) in places.items()}
        by_keyword = {f"{word} {name}": path for name, (word, path) in places.items() if word}
        for way, queries, in_text in (
            ("", by_name, False),
            (", in text", by_name, True),
            (", with keyword", by_keyword, False),
        ):
            if queries:
                missed = asyncio.run(_missed(open_catalog(tree), queries, in_text=in_text))
                most = 0 if corpus is CORPORA[0] else MISSED
                limit(f"{corpus.title}{way}", len(missed), most, f"of {len(queries)}")
                print(*(f"    {query}: {queries[query]}\n" for query in missed), sep="", end="")
        if corpus is CORPORA[0]:
            first = tree, next(iter(by_keyword))
    return first


def _downloaded(corpus: Corpus, scratch: Path) -> Path | None:
    package = scratch / re.sub(r"\W+", "-", corpus.download[-1])
    if not package.exists():
        package.mkdir()
        if subprocess.run(corpus.download, cwd=package, capture_output=True).returncode:
            return None
        (archive,) = package.iterdir()
        with tarfile.open(archive) as opened:
            opened.extractall(package, filter="data")
        archive.unlink()
    return next(package.iterdir(), package) / corpus.folder


def _drawn(corpus: Corpus, tree: Path) -> dict[str, tuple[str, str]]:
    """Return the names that are searched for, each with its keyword and file."""
    pattern = re.compile(corpus.pattern, re.MULTILINE)
    found: dict[str, dict[str, str]] = {}
    for file in sorted(tree.glob(corpus.files)):
        text = file.read_text("utf-8", "replace")
        if corpus.pattern == _MARKDOWN:
            text = _FENCED.sub("", text)
        for keyword, name, *_ in pattern.findall(text):
            words = name if keyword else " ".join(_WORD.findall(_ROLE.sub("", name)))
            if len(words) >= _MIN_LENGTH:
                found.setdefault(words, {})[file.relative_to(tree).as_posix()] = keyword
    once = sorted(name for name, places in found.items() if len(places) == 1)
    drawn = random.Random(1).sample(once, DRAWN)  # noqa: S311  the same names each time
    return {name: (keyword, path) for name in drawn for path, keyword in found[name].items()}


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
