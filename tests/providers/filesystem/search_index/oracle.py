"""Searches of one folder with an index and without, with changes in between."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

from resource_server.access import Access
from resource_server.documents.encoding import PIECE_BYTES
from resource_server.errors import ResourceError
from resource_server.provider.search import SearchPage, SearchRequest, Together
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.timing import Timing
from tests.waiting import until

FAST = Timing(index_settle_s=0.01, index_retry_s=0.05, watch_poll_share=0.1)

_WORDS = (
    "needle hay Straße STRASSE strasse café cafe\u0301 CAFÉ K\u212a\u017fs İstanbul ǅungla 한글 "
    "def class select_related x1 foo.bar a-b \ufb01n ὀδυσσεύς Ὀδυσσεύς \u03b1\u03b9 ᾳ"
).split()
_SPACES = (" ", "  ", "\t", "\u00a0", " ")
_NAMES = ("a.txt", "b.py", "c.md", "d.bin", "e", "f.png", "g.csv", "h.log", "ü.txt", ".i.txt")
_FOLDERS = ("", "src/", "src/deep/", "docs/", "docs/ö/", "tmp/")
_EXPRESSIONS = (
    r"need\w+", r"(?i)CAF.", r"\bdef\b", r"foo\.bar", "a-b|hay", "[xy]1$", "^class", "stra(ss|ß)e"
)  # fmt: skip

_NONE: Mapping[str, Any] = {}
_RULES: Sequence[Mapping[str, Any]] = (
    *[_NONE] * 4,
    {"exclude": ("*.md", "/docs/deep/")},
    {"include": ("*.txt", "docs/**/*.md", "/src/")},
    {"hidden": True},
    {"gitignore": False},
    {"symlinks": "within-root"},
    {"max_size": 100},
    {"encoding": "cp1252"},
    {"types": {"*.bin": "text/plain", "e": "image/png"}},
    {"convert": "off"},
)
_OF_SRC: Sequence[Mapping[str, Any]] = (
    *[_NONE] * 4,
    {"readable": False},
    {"listed": False},
    {"exposed": False},
    {"include": ("*.py",)},
    {"hidden": True, "gitignore": False},
    {"encoding": "utf-16"},
    {"access": Access(scopes=("staff", "boss"))},
)
SCOPES = (frozenset[str](), frozenset({"staff"}), frozenset({"staff", "boss"}))


def rules_of(number: int) -> Mapping[str, Any]:
    """Return options of a folder whose `docs` needs a scope; a number has the same ones always."""
    chance = random.Random(number)  # noqa: S311
    src = DirectoryOptions(optional=True, **chance.choice(_OF_SRC))
    docs = DirectoryOptions(optional=True, access=Access(scopes=("staff",)))
    return {**chance.choice(_RULES), "directories": {"src": src, "docs": docs}}


class Changes:
    """A folder that changes at random, by a seed."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)  # noqa: S311  a seed repeats it

    def happen(self, count: int) -> None:
        """Make some changes."""
        for _ in range(count):
            with contextlib.suppress(OSError):
                self._change()

    def _change(self) -> None:
        choose = self.random.choice
        file = self.root / choose(_FOLDERS) / choose(_NAMES)
        kind = self.random.random()
        if kind < 0.55:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._content())
        elif kind < 0.7:
            with file.open("ab") as opened:
                opened.write(self._content())
        elif kind < 0.75:
            status = file.stat()
            file.write_bytes(self._content())
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        elif kind < 0.8:
            file.unlink()
        elif kind < 0.85:
            file.rename(self.root / choose(_FOLDERS) / choose(_NAMES))
        elif kind < 0.88:
            (self.root / choose(_FOLDERS)).rename(self.root / choose(("moved", "src", "tmp")))
        elif kind < 0.92:
            self._link(file, self.root / choose(_FOLDERS) / choose(_NAMES))
        elif kind < 0.94:
            ignored = choose(("*.md\n", "a.txt\n", "deep/\n", ""))
            (self.root / choose(_FOLDERS) / ".gitignore").write_text(ignored)
        elif kind < 0.97:
            file.chmod(choose((0o600, 0o644)))
        else:
            with file.open("r+b") as opened:
                opened.truncate(self.random.randrange(20))

    def _link(self, file: Path, other: Path) -> None:
        target = self.random.choice((None, None, ".", "..", "a.txt", "../docs", "src", "/etc"))
        if target is None:
            os.link(file, other)
        else:
            other.symlink_to(target)

    def _content(self) -> bytes:
        text = self.line()
        while self.random.random() < 0.6:
            text += self.random.choice(("\n", "\r\n", "\n\n")) + self.line()
        kind = self.random.random()
        if kind < 0.7:
            return text.encode()
        if kind < 0.75:
            return text.encode("latin-1", "replace")
        if kind < 0.8:
            return text.encode("utf-16")
        if kind < 0.85:
            return b"\x89PNG\0\xff" + text.encode() + b"\0"
        if kind < 0.9:
            return text.encode() * (PIECE_BYTES // len(text.encode()) + 2)
        if kind < 0.93:
            return text.encode() + b"\0" * 70_000
        return b"" if kind < 0.95 else text.encode()[:-1]

    def line(self) -> str:
        """Return some words as one line."""
        words = [self.random.choice(_WORDS) for _ in range(self.random.randint(1, 5))]
        return "".join(word + self.random.choice(_SPACES) for word in words)

    def request(self) -> SearchRequest:
        """Return a search."""
        choose = self.random.choice
        if self.random.random() < 0.25:
            match_case = choose((None, False, True))
            return SearchRequest(
                text=choose(_EXPRESSIONS), where="text", is_pattern=True, match_case=match_case
            )
        line = self.line()
        text = line.strip() if self.random.random() < 0.3 else choose(line.split())
        begin = self.random.randrange(3)
        text = (text[begin:] if self.random.random() < 0.3 else text) or "x"
        words = tuple(line.split()) if self.random.random() < 0.5 else ()
        ways: Sequence[tuple[Together, ...]] = (
            ("line",),
            ("document",),
            ("most",),
            ("line", "document"),
            ("line", "document", "most"),
        )
        together, *then = choose(ways)
        return SearchRequest(
            text=line.strip() if words else text,
            where="text",
            words=words if len(words) > 1 else (),
            together=together,
            then=tuple(then) if len(words) > 1 else (),
            match_case=choose((None, None, False, True)),
            files=choose((None, None, None, "*.txt", "src/**")),
            count_s=choose((0.0, 100.0)),
        )


@contextlib.asynccontextmanager
async def both(
    root: Path, cache: Path, **options: object
) -> AsyncGenerator[tuple[Filesystem, Filesystem]]:
    """Return the folder with an index, and without."""
    indexed = Filesystem(root, index=True, cache=cache, **options)  # pyright: ignore[reportArgumentType]
    scanned = Filesystem(root, **options)  # pyright: ignore[reportArgumentType]
    indexed.timing = FAST
    async with indexed, scanned:
        yield indexed, scanned


_BUILDER = """
import asyncio, pathlib, sys
from tests.providers.filesystem.search_index import oracle
asyncio.run(oracle.build(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])))
"""


async def build(root: Path, cache: Path, rules: int) -> None:
    """Keep an index current until this process is killed."""
    folder = Filesystem(root, index=True, cache=cache, **rules_of(rules))
    folder.timing = FAST
    async with folder:
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def builder(
    root: Path, cache: Path, rules: int
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Return a process that has begun to keep an index current, as if before any other."""
    run = [sys.executable, "-c", _BUILDER, str(root), str(cache), str(rules)]
    process = await asyncio.create_subprocess_exec(
        *run, cwd=Path(__file__).parents[4], stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline()
        yield process
    finally:
        await kill(process)


async def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process, if it still runs, and wait for its end."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def pages(
    folder: Filesystem, request: SearchRequest, limit: int, below: Sequence[str] = ()
) -> Sequence[object]:
    """Return all pages of a search, or how it fails."""
    found: list[object] = []
    after: str | None = None
    while True:
        try:
            page = await _page(folder, request, after, limit, below)
        except ResourceError as error:
            return [*found, type(error), str(error)]
        found.append(page)
        after = page.next
        if after is None:
            return found


async def _page(
    folder: Filesystem,
    request: SearchRequest,
    after: str | None,
    limit: int,
    below: Sequence[str],
) -> SearchPage:
    """Return a page once all documents are converted."""
    pages: list[SearchPage] = []

    async def is_complete() -> bool:
        deadline = time.monotonic() + 100
        page = await folder.search(
            request, below=tuple(below), after=after, limit=limit, deadline=deadline
        )
        pages[:] = [page]
        return not any("not converted yet" in gap.why for gap in page.unsearched)

    await until(is_complete)
    return pages[0]


async def until_current(folder: Filesystem) -> None:
    """Wait until the index has all that it can have."""
    index = folder.search_index
    assert index is not None
    await until(index.is_current)


def words(text: str, **options: Any) -> SearchRequest:
    """Return a search of text."""
    return SearchRequest(text=text, where="text", **options)


async def found(folders: Sequence[Filesystem], request: SearchRequest) -> Sequence[str]:
    """Return the paths of all hits, which are the same in all folders, as are the pages."""
    indexed, *others = [await pages(folder, request, 1000) for folder in folders]
    for other in others:
        assert indexed == other, request
    hits = [hit for page in indexed if isinstance(page, SearchPage) for hit in page.hits]
    return ["/".join(hit.resource.path) for hit in hits]
