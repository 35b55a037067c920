"""Any document: its conversion ends in time with parts or an error, and harms nothing else.

Damaged documents and bombs are read, several at once, from a server process that serves all cases
of a search, so that what accumulates shows. Meanwhile the server has to answer other requests, and
no output may have anything of a file, environment or document that is not the one read.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import strategies as st

from resource_server import media_types
from resource_server.conversion import registry
from resource_server.errors import ConversionError
from resource_server.providers.filesystem.converted import ConvertedDocuments
from resource_server.providers.filesystem.provider import Filesystem
from tests.worlds import hostile_documents
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.hostile_documents import KINDS, OUTSIDE, Damage, damaged
from tests.worlds.messages import check_log
from tests.worlds.process_patches import Sabotages

_ROOT = Path(__file__).parents[2]
_PROGRAM = "{}\nfrom resource_server.cli import main\nmain()"
_ANSWERED_S = 45.0
"""Patience with a conversion: its 15 seconds, after those of the documents before it."""
_ALIVE_S = 10.0
"""Patience with other requests meanwhile, on a machine with much else to do."""
_ASK_EVERY_S = 0.2
_ENDED_S = 10.0
_MAX_RESULT_BYTES = 32 * 1024 * 1024
_WARM_CASES = 10
_LIFE_CASES = 200
"""Cases of one server process."""
_SLACK_BYTES = 300 * 1024 * 1024
"""How much more memory than after the first cases there may be: what the cache may hold."""
_WORKER_BYTES = 512 * 1024 * 1024
_INTERNAL_ERROR = -32603
_SOUND, _DOCUMENTS = hostile_documents.sound(), hostile_documents.documents()
_PARTS = ("", "pages=2-", "slides=2", "sheets=1", "rows=3-9", "columns=who", "cells=2", "max=64")


@dataclass(frozen=True)
class Variant:
    """A document with damage, and what is asked of it."""

    name: str
    """File name of the document to begin with."""
    damages: tuple[Damage, ...] = ()
    suffix: str = ""
    """Another suffix than its own."""
    format: int = 0
    """Number of the format, among those that are offered."""
    part: str = ""
    """URI parameter, left out where the document takes no such."""


@dataclass(frozen=True)
class Folder:
    """Documents that are read at once, and searched."""

    variants: tuple[Variant, ...]
    is_searched: bool = False


@functools.cache
def _original(name: str) -> bytes:
    return _DOCUMENTS[name]()


def _written(variant: Variant, folder: Path, number: int, secret: Path) -> Path:
    data = _original(variant.name).replace(OUTSIDE.encode(), secret.as_uri().encode())
    for damage in variant.damages:
        data = damaged(data, damage)
    suffix = variant.suffix or variant.name.partition(".")[2]
    path = folder / f"{number}.{suffix}"
    path.write_bytes(data)
    return path


def _uri(folder: Path, path: Path, variant: Variant) -> str:
    """Return the URI of a document's conversion."""
    converter = registry.Converters().of(media_types.from_name(path.name, ()))
    if converter is None:
        return f"file:///{folder.name}/{path.name}"
    query = [f"format={converter.formats[variant.format % len(converter.formats)].name}"]
    if variant.part.partition("=")[0] in (converter.unit, *converter.options):
        query.append(variant.part)
    return f"file:///{folder.name}/{path.name}?{'&'.join(query)}"


class _Served:
    """A server process over stdio, for all cases until one violates the property."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="place-canary-"))
        outside = Path(tempfile.mkdtemp(prefix="outside-"))
        self._folders = (self.place, outside)
        self.folder = self.place / "documents"
        self.folder.mkdir()
        (self.folder / "plain.txt").write_text("plain")
        self.secret = outside / "secret.txt"
        self.secret.write_text("secret-canary")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed in `end`
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(SABOTAGES.code), "serve", str(self.folder)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "CANARY": "environment-canary"},
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._next_id = 0
        self._workers = set[int]()
        self._first_bytes = 0
        self.cases = 0
        info = {"name": "worlds", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self.answers([("initialize", params)])
        self._send({"method": "notifications/initialized"})

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Violation("the server has ended") from None

    def _ask(self, method: str, params: dict[str, Any]) -> int:
        self._next_id += 1
        self._send({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def answers(self, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[bytes]:
        """Return the responses to requests, between which others must be answered soon."""
        ids = [self._ask(method, params) for method, params in requests]
        found: dict[int, bytes] = {}
        begin = asked_at = time.monotonic()
        asked: int | None = None
        while set(ids) - found.keys() or asked is not None:
            with suppress(queue.Empty):
                line = self._lines.get(timeout=_ASK_EVERY_S)
                if not line:
                    raise Violation("the server has ended")
                number = json.loads(line).get("id")
                if number in ids:
                    found[number] = line
                elif number == asked:
                    asked = None
            now = time.monotonic()
            if asked is not None and now - asked_at > _ALIVE_S:
                raise Violation(f"another request is not answered within {_ALIVE_S:g} s")
            if now - begin > _ANSWERED_S:
                raise Violation(f"no response within {_ANSWERED_S:g} s")
            if asked is None and now - asked_at > _ASK_EVERY_S and set(ids) - found.keys():
                uri = f"file:///{self.folder.name}/plain.txt"
                asked, asked_at = self._ask("resources/read", {"uri": uri}), now
        return [found[each] for each in ids]

    def check(self) -> None:
        """Raise `Violation` if the server or its workers take too much, or it logged an error."""
        self.cases += 1
        self._log.seek(0)
        check_log(self._log.read().decode(errors="replace"))
        now = _memory(self._process.pid)
        if self.cases == _WARM_CASES:
            self._first_bytes = now
        if self._first_bytes and now > self._first_bytes + _SLACK_BYTES:
            raise Violation(f"{now} bytes of memory; after the first cases {self._first_bytes}")
        workers = _children(self._process.pid)
        self._workers.update(workers)
        if len(workers) > 2:
            raise Violation(f"{len(workers)} workers")
        for worker in workers:
            if _memory(worker) > _WORKER_BYTES:
                raise Violation("a worker has more memory than its limit")

    def end(self, *, is_killed: bool = False) -> None:
        """End the process; its workers have to end with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._workers.update(_children(self._process.pid))
        try:
            if is_killed:
                self._process.send_signal(signal.SIGKILL)
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.wait(_ENDED_S)
            until = time.monotonic() + _ENDED_S
            while any(map(_is_worker, self._workers)):
                if time.monotonic() > until:
                    raise Violation("a worker outlives its server")
                threading.Event().wait(0.05)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(_ENDED_S)
            for stream in (self._process.stdin, self._process.stdout, self._log):
                stream.close()
            for folder in self._folders:
                shutil.rmtree(folder)


def _children(pid: int) -> set[int]:
    found = set[int]()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, task.read_text().split()))
    return {child for child in found if _is_worker(child)}


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        return b"resource_server.conversion.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _memory(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 if it has ended."""
    with suppress(OSError):
        found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
        return int(found[1]) * 1024 if found else 0
    return 0


_served: list[_Served] = []


@atexit.register
def _end_served() -> None:
    while _served:
        with suppress(Violation):
            _served.pop().end()


def _check(case: Folder, tally: Tally) -> None:
    if not _served:
        _served.append(_Served())
    (served,) = _served
    try:
        _converse(served, case, tally)
        served.check()
        if served.cases == _LIFE_CASES:
            _served.clear()
            served.end(is_killed=bool(time.monotonic_ns() % 2))
            tally.count("processes")
    except Violation:
        _end_served()
        raise


def _converse(served: _Served, case: Folder, tally: Tally) -> None:
    numbers = range(served.cases * 100, served.cases * 100 + len(case.variants))
    paths = [
        _written(variant, served.folder, number, served.secret)
        for number, variant in zip(numbers, case.variants, strict=True)
    ]
    uris = [
        _uri(served.folder, path, variant)
        for path, variant in zip(paths, case.variants, strict=True)
    ]
    requests: list[tuple[str, dict[str, Any]]] = [("resources/read", {"uri": uri}) for uri in uris]
    if case.is_searched:
        search = {"name": "search_resources", "arguments": {"query": "Zürich"}}
        requests.append(("tools/call", search))
    try:
        answers = served.answers(requests)
    finally:
        for path in paths:
            path.unlink()
    for (_, params), line in zip(requests, answers, strict=True):
        is_result = _judged(line, str(params))
        tally.count("converted" if is_result else "refused")
        if b"the converter failed" in line or b"takes longer" in line:
            tally.count("workers lost")
    _witness(served)


def _judged(line: bytes, request: str) -> bool:
    """Return whether a response is a result.

    Raises:
        Violation: it has what it should not.
    """
    if len(line) > _MAX_RESULT_BYTES:
        raise Violation(f"{request}: {len(line)} bytes")
    for canary in (b"place-canary", b"secret-canary", b"environment-canary", b"witness-canary"):
        if canary in line:
            at = line.index(canary)
            raise Violation(f"{request}: leaks {line[max(at - 200, 0) : at + 100]!r}")
    answer = cast("dict[str, Any]", json.loads(line))
    error = answer.get("error")
    if error is not None and (error["code"] == _INTERNAL_ERROR or len(line) > 2000):
        raise Violation(f"{request}: {line[:2000]!r}")
    return error is None


def _witness(served: _Served) -> None:
    """Convert two documents that are whole; what is in them must not be seen later."""
    number = f"witness-canary-{served.cases}"
    paths = [served.folder / f"{number}.csv", served.folder / f"{number}.html"]
    paths[0].write_text(f"who,what\nA,{number}\n")
    paths[1].write_text(f"<p>{number}</p>")
    base = f"file:///{served.folder.name}"
    try:
        lines = served.answers(
            [("resources/read", {"uri": f"{base}/{path.name}?format=markdown"}) for path in paths]
        )
    finally:
        for path in paths:
            path.unlink()
    for line in lines:
        answer = cast("dict[str, Any]", json.loads(line))
        contents = answer.get("result", {}).get("contents", [{}])
        if number not in contents[0].get("text", ""):
            raise Violation(f"a document that is whole is not converted: {line[:500]!r}")


# -- sabotages


def _tell_paths(patch: pytest.MonkeyPatch) -> None:
    """Name the file in the error."""
    convert = ConvertedDocuments.convert

    def telling(self: ConvertedDocuments, fd: int, wanted: Any, **options: Any) -> Any:
        try:
            return convert(self, fd, wanted, **options)
        except ConversionError as error:
            name = Path(f"/proc/self/fd/{fd}").readlink()
            raise ConversionError(f"{name}: {error}") from None

    patch.setattr(ConvertedDocuments, "convert", telling)


def _keep_documents(patch: pytest.MonkeyPatch) -> None:
    """Keep much of each conversion."""
    convert, kept = ConvertedDocuments.convert, list[bytes]()

    def keeping(self: ConvertedDocuments, fd: int, wanted: Any, **options: Any) -> Any:
        kept.append(b"x" * 20_000_000)
        return convert(self, fd, wanted, **options)

    patch.setattr(ConvertedDocuments, "convert", keeping)


def _hold_the_loop(patch: pytest.MonkeyPatch) -> None:
    """Let everything wait for a conversion."""

    def holding(call: Callable[..., Any]) -> Callable[..., Any]:
        def held(self: Filesystem, path: Any, query: Any) -> Any:
            if "format" in query:
                threading.Event().wait(_ALIVE_S + 2)
            return call(self, path, query)

        return held

    for name in ("read", "fetch"):
        patch.setattr(Filesystem, name, holding(getattr(Filesystem, name)))


SABOTAGES = Sabotages(
    __name__,
    "SABOTAGES",
    {"paths-told": _tell_paths, "memory-kept": _keep_documents, "loop-held": _hold_the_loop},
)


@contextmanager
def _sabotaged(name: str) -> Generator[None]:
    _end_served()
    with SABOTAGES.in_force(name):
        try:
            yield
        finally:
            _end_served()


# -- the property


async def check(case: Folder, tally: Tally) -> None:
    """Read the documents, and judge what comes."""
    _check(case, tally)


_SUFFIXES = sorted({name.partition(".")[2] for name in _DOCUMENTS})
# Most damage to an archive is to its members, since other damage is soon found.
_KINDS = (*sorted(KINDS), *["within"] * 8)
_VARIANTS = st.builds(
    Variant,
    name=st.one_of(*[st.sampled_from(sorted(_SOUND))] * 5, st.sampled_from(sorted(_DOCUMENTS))),
    damages=st.lists(
        st.builds(Damage, st.sampled_from(_KINDS), st.integers(0, 2**32 - 1)), max_size=3
    ).map(tuple),
    suffix=st.one_of(*[st.just("")] * 11, st.sampled_from(_SUFFIXES)),
    format=st.integers(0, 1),
    part=st.sampled_from(_PARTS),
)
_CASES = st.builds(
    Folder,
    variants=st.lists(_VARIANTS, min_size=1, max_size=8).map(tuple),
    is_searched=st.sampled_from((False, False, False, True)),
)

PROPERTY: Property[Folder] = Property(
    name="conversions",
    cases=_CASES,
    check=check,
    sabotages={name: functools.partial(_sabotaged, name) for name in SABOTAGES.patches},
)
