"""The `watch` command: changes of real files, and a listing watched in this process."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.cli.commands.watch import Event, EventPrinter, PendingChanges, WatchedListing
from resource_server.errors import ResourceNotFound
from resource_server.protocol.in_process_client import LocalClient
from resource_server.protocol.server import Server, ServerLimits
from resource_server.provider import MaybeAwaitable, Provider, Resource
from resource_server.provider import Path as ResourcePath
from resource_server.runtime.timing import Timing
from tests.cli.conftest import PATIENCE_S, Lines, Run, keep, started
from tests.providers_for_tests import Tree, WatchedTree

POLLED = """
import pathlib
from resource_server.errors import ResourceNotFound
from resource_server.provider import Change, Content, Resource

FILE = pathlib.Path(__file__).with_name("polled.txt")

class Polled:
    templates = ()
    def list(self, parent, *, after, limit):
        return [self.metadata(("x",))] if not (parent or after) and FILE.exists() else []
    def metadata(self, path):
        if not path:
            return Resource(path=path, name="polled", type="collection")
        if path != ("x",) or not FILE.exists():
            raise ResourceNotFound
        return Resource(path=path, name="x", type="document", version=FILE.read_text())
    def read(self, path, query):
        return [Content(FILE.read_text())]
    async def changes(self, interest):
        while True:
            await interest.next(0.02)
            for path in list(interest.paths):
                yield Change(path)
            yield Change((), "children")
"""


class Watch:
    """A `watch` that has begun, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], errors: Lines, folder: Path) -> None:
        assert process.stdout is not None
        self.process = process
        self.errors = errors
        self.lines = Lines(process.stdout)
        self._folder = folder

    def do(self, commands: str) -> None:
        """Change something in the folder that is watched."""
        subprocess.run(["/bin/sh", "-ec", commands], cwd=self._folder, check=True)

    def told(self, count: int) -> list[str]:
        """Return the next events, sorted; there must be so many, and no more for a while."""
        return sorted(self.event(line) for line in self.lines.some(count))

    @staticmethod
    def event(line: str) -> str:
        """Return an event without the time and the beginning of the URI."""
        match = re.fullmatch(r"\d\d:\d\d:\d\d  (\w+) +file:///project(?:/(\S+))?", line)
        assert match is not None, line
        return f"{match[1]} {match[2] or ''}".strip()


@contextmanager
def watching(folder: Path, *arguments: str | Path) -> Generator[Watch]:
    """Watch a folder, or what the arguments name instead; gives it once it has begun."""
    with started("watch", *(arguments or (folder,))) as (process, stream):
        errors = Lines(stream)
        errors.until("; Ctrl-C ends")
        yield Watch(process, errors, folder)


def test_a_save_is_one_change(folder: Path) -> None:
    with watching(folder) as watch:
        for commands in (
            "touch README.md",
            "echo more >> README.md",
            "echo other > README.md",
            "echo other > .new && mv .new README.md",
            "echo other > new~ && mv new~ README.md",
            "chmod 600 README.md && touch README.md",
        ):
            watch.do(commands)
            assert watch.told(1) == ["changed README.md"], commands
        # In this process, as editors do it: a program for each step takes too long to be one save.
        file, backup = folder / "README.md", folder / "README.md~"
        file.rename(backup)
        file.write_text("other")
        backup.unlink()
        assert watch.told(1) == ["changed README.md"]
        shutil.copy2(file, backup)
        file.unlink()
        shutil.copy(backup, file)
        backup.unlink()
        assert watch.told(1) == ["changed README.md"]


def test_every_change_of_a_document_is_reported(folder: Path) -> None:
    with watching(folder) as watch:
        for number in range(3):
            watch.do(f"echo {number} > docs/guide.txt")
            assert watch.told(1) == ["changed docs/guide.txt"]


def test_new_resources_are_reported_once_and_watched(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("mkdir -p a/b/c && echo > a/b/c/new.txt")
        assert watch.told(4) == ["added a", "added a/b", "added a/b/c", "added a/b/c/new.txt"]
        watch.do("echo changed > a/b/c/new.txt")
        assert watch.told(1) == ["changed a/b/c/new.txt"]


def test_deleted_resources_are_reported_once(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("rm README.md; rm -r docs")
        assert watch.told(5) == [
            "removed README.md",
            "removed docs",
            "removed docs/deep",
            "removed docs/deep/note.txt",
            "removed docs/guide.txt",
        ]


def test_a_rename_is_a_removal_and_an_addition(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("mv README.md READ.me")
        assert watch.told(2) == ["added READ.me", "removed README.md"]
        watch.do("mv docs/deep docs/deeper")
        assert watch.told(4) == [
            "added docs/deeper",
            "added docs/deeper/note.txt",
            "removed docs/deep",
            "removed docs/deep/note.txt",
        ]


def test_a_restored_resource_is_reported_as_added(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("rm README.md")
        assert watch.told(1) == ["removed README.md"]
        watch.do("echo back > README.md")
        assert watch.told(1) == ["added README.md"]
        watch.do("echo changed > README.md")
        assert watch.told(1) == ["changed README.md"]


def test_a_document_replaced_by_a_collection_is_removed_and_added(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("rm README.md && mkdir README.md")
        assert watch.told(2) == ["added README.md", "removed README.md"]
        watch.do("rmdir README.md && echo > README.md")
        assert watch.told(2) == ["added README.md", "removed README.md"]


def test_changes_of_hidden_resources_are_not_reported(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("echo TOKEN=2 > .env; mkdir .cache; echo > .cache/x; echo > README.md")
        assert watch.told(1) == ["changed README.md"]


def test_editing_an_ignore_file_removes_and_adds_matching_resources(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("echo '*.bin' > .gitignore")
        assert watch.told(1) == ["removed blob.bin"]
        watch.do("rm .gitignore")
        assert watch.told(1) == ["added blob.bin"]


def test_a_folder_is_reported_when_it_vanishes_and_returns(folder: Path) -> None:
    with watching(folder) as watch:
        watch.do("mv ../project ../elsewhere")
        gone = [watch.event(line) for line in watch.lines.some(7)]
        assert {line.split(" ")[0] for line in gone} == {"removed"}
        subprocess.run(["mv", "elsewhere", "project"], cwd=folder.parent, check=True)
        came = [watch.event(line) for line in watch.lines.some(7)]
        assert sorted(came) == sorted(line.replace("removed", "added") for line in gone)


def test_a_branch_checkout_reports_each_file_once(folder: Path) -> None:
    def tree(names: range, text: str) -> None:
        for number in names:
            file = folder / f"d{number % 7}" / f"{number:03}.txt"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, "utf-8")

    def git(*words: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    tree(range(150), "one")
    git("init", "-b", "one")
    git("add", ".")
    git("commit", "-m", "one")
    git("checkout", "-b", "two")
    tree(range(50, 100), "two")
    tree(range(150, 200), "two")
    git("rm", "-q", *(f"d{number % 7}/{number:03}.txt" for number in range(50)))
    git("add", ".")
    git("commit", "-m", "two")
    git("checkout", "one")
    expected = {
        "added": [f"{number:03}" for number in range(150, 200)],
        "changed": [f"{number:03}" for number in range(50, 100)],
        "removed": [f"{number:03}" for number in range(50)],
    }
    with watching(folder) as watch:
        told: dict[str, list[str]] = {}
        # Where git gets no turn between creating a file and writing it, both are changes.
        for _ in range(5):
            git("checkout", "two")
            counted = [line.split(" ") for line in watch.told(150)]
            told = {
                event: sorted(uri[-7:-4] for each, uri in counted if each == event)
                for event in expected
            }
            if told == expected:
                break
            git("checkout", "one")
            watch.told(150)
        assert told == expected


def test_only_selected_resources_are_reported(folder: Path) -> None:
    with watching(folder, folder, "file:///project/README.md", "file:///project/docs/") as watch:
        watch.do("touch blob.bin docs/deep/note.txt; echo > new.txt; echo > README.md")
        assert watch.told(1) == ["changed README.md"]
        watch.do("rm README.md")
        assert watch.told(1) == ["removed README.md"]
        watch.do("echo back > README.md")
        assert watch.told(1) == ["added README.md"]
        watch.do("echo > docs/new.txt")
        assert watch.told(1) == ["changed docs"]
        watch.do("rm -r docs")
        assert watch.told(1) == ["removed docs"]
        watch.do("mkdir docs")
        assert watch.told(1) == ["added docs"]


def test_json_is_one_object_per_line(folder: Path) -> None:
    with watching(folder, "--json", folder) as watch:
        before = datetime.now(UTC)
        watch.do("echo > 'docs/grüße.txt'")
        added = json.loads(watch.lines.next())
        watch.do("rm 'docs/grüße.txt'")
        removed = json.loads(watch.lines.next())
        uri = "file:///project/docs/gr%C3%BC%C3%9Fe.txt"
        assert list(added) == ["event", "uri", "time"]
        assert [added["event"], added["uri"]] == ["added", uri]
        assert [removed["event"], removed["uri"]] == ["removed", uri]
        times = [datetime.fromisoformat(event["time"]) for event in (added, removed)]
        assert before.replace(microsecond=0) <= times[0] <= times[1] <= datetime.now(UTC)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", added["time"])


def test_a_name_cannot_control_the_terminal(folder: Path) -> None:
    with watching(folder) as watch:
        (folder / "a\x1b[31m\n.txt").touch()
        assert watch.told(1) == ["added a%1B%5B31m%0A.txt"]


def test_the_first_line_reports_what_is_watched(folder: Path) -> None:
    with started("watch", folder) as (_, errors):
        assert errors.readline() == (
            "resource-server: watching 4 documents and 3 collections of file:///project/; "
            "Ctrl-C ends\n"
        )
    with started("watch", folder, "file:///project/docs") as (_, errors):
        assert errors.readline() == (
            "resource-server: watching 1 resource of file:///project/; Ctrl-C ends\n"
        )


def test_a_missing_resource_is_one_line_and_status_1(run: Run, folder: Path) -> None:
    for uri in ("file:///project/missing.txt", "file:///project/.env", "other://x"):
        done = run("watch", folder, "file:///project/README.md", uri)
        assert (done.status, done.out) == (1, "")
        assert done.err == f"resource-server: resource not found: {uri}\n"


def test_a_mount_without_change_events_is_named(folder: Path) -> None:
    keep(folder, "roots:\n  a: {path: docs}\n  b: {path: docs, watch: off}\n")
    with started("watch", folder) as (_, errors):
        errors.readline()
        assert errors.readline() == (
            "resource-server: no change events from file:///b/; listing every 30 s instead\n"
        )


def test_a_mount_that_cannot_start_is_reported_and_its_resources_appear_later(folder: Path) -> None:
    keep(folder, "roots:\n  project: {path: later}\n")
    with started("watch", folder) as (process, stream):
        errors = Lines(stream)
        assert "mount project is unavailable" in errors.until("; Ctrl-C ends")[0]
        watch = Watch(process, errors, folder)
        watch.do("mkdir .l && echo > .l/x.txt && mv .l later")
        assert watch.told(2) == ["added", "added x.txt"]


def test_a_provider_that_polls_is_watched(folder: Path) -> None:
    (folder / "polled.py").write_text(POLLED, "utf-8")
    keep(folder, "providers:\n  p: {use: polled.py, uri: 'file:///project/'}\n")
    with watching(folder) as watch:
        for commands, event in (
            ("echo 1 > polled.txt", "added x"),
            ("echo 2 > polled.txt", "changed x"),
            ("rm polled.txt", "removed x"),
        ):
            watch.do(commands)
            assert watch.told(1) == [event]


def test_a_changed_manifest_adds_and_removes_resources(folder: Path) -> None:
    keep(folder, "roots:\n  project: {path: docs/deep}\n")
    with watching(folder) as watch:
        keep(folder, "roots:\n  project: {path: docs}\n")
        assert watch.told(4) == [
            "added deep",
            "added deep/note.txt",
            "added guide.txt",
            "removed note.txt",
        ]
        watch.do("echo > docs/guide.txt")
        assert watch.told(1) == ["changed guide.txt"]
        keep(folder, "roots: {project: {path: docs, exclude: [deep]}}\n")
        assert watch.told(2) == ["removed deep", "removed deep/note.txt"]


def test_a_resource_that_becomes_unlisted_is_reported_as_removed(folder: Path) -> None:
    keep(folder, "roots:\n  project: {path: docs}\n")
    with watching(folder) as watch:
        unlisted = "directories: {deep: {listed: false}}"
        keep(folder, f"roots:\n  project: {{path: docs, {unlisted}}}\n")
        assert watch.told(2) == ["removed deep", "removed deep/note.txt"]


def test_a_manifest_that_becomes_invalid_is_reported_and_the_watch_continues(folder: Path) -> None:
    keep(folder, "roots:\n  project: {path: docs}\n")
    with watching(folder) as watch:
        keep(folder, "rotos: {}\n")
        assert ":1:1: rotos: " in watch.errors.until("rotos")[-1]
        watch.do("echo > docs/guide.txt")
        assert watch.told(1) == ["changed guide.txt"]


def test_a_reader_that_closes_the_pipe_ends_the_watch_before_the_next_event(folder: Path) -> None:
    with started("watch", folder) as (process, errors):
        assert process.stdout is not None
        errors.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 1
        assert errors.read() == ""


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_the_watch_silently(folder: Path) -> None:
    with started("watch", folder) as (process, errors):
        errors.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert errors.read().strip() == ""


BASE = "test://one/"


class EventQueue(EventPrinter):
    """Events to wait for instead of printed ones."""

    def __init__(self) -> None:
        super().__init__(as_json=False)
        self._queue = asyncio.Queue[str]()

    def print_event(self, event: Event, uri: str) -> None:
        self._queue.put_nowait(f"{event} {uri.removeprefix(BASE)}")

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self._queue.get()


@asynccontextmanager
async def watched_listing(
    provider: Provider,
    *,
    polls: bool = False,
    timing: Timing = Timing(),
    limits: ServerLimits | None = None,
) -> AsyncGenerator[tuple[str, EventQueue]]:
    """Watch the listing of one provider; yields the first summary and the events."""
    events = EventQueue()
    pending = PendingChanges()
    server = Server(Catalog([Mount("one", BASE, provider)]), limits=limits)
    async with (
        server,
        LocalClient(server, on_notification=pending.take, follows_list=True) as client,
    ):
        listing = WatchedListing(client, pending, events, polls=lambda: polls, timing=timing)
        summary = await listing.begin()
        tasks = [asyncio.ensure_future(work) for work in listing.loops()]
        try:
            yield summary, events
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.anyio
async def test_documents_past_the_limit_of_subscriptions_are_still_added_and_removed() -> None:
    tree = WatchedTree({"a": "", "b": "", "c": ""})
    async with watched_listing(tree, limits=ServerLimits(subscriptions=2)) as (summary, events):
        assert summary == ("3 documents and 1 collection (1 over the subscription limit)")
        tree.set("c", to=None)
        assert await events.next() == "removed c"
        tree.set("d", to="")
        assert await events.next() == "added d"


@pytest.mark.anyio
async def test_a_document_is_subscribed_to_once_the_limit_allows() -> None:
    tree = WatchedTree({"a": "", "b": "", "c": ""})
    async with watched_listing(tree, limits=ServerLimits(subscriptions=2)) as (_, events):
        tree.set("a", to=None)
        assert await events.next() == "removed a"
        await tree.asked(("b",), ("c",))
        tree.set("c", to="changed")
        assert await events.next() == "changed c"


@pytest.mark.anyio
async def test_a_document_gone_before_its_subscription_is_not_reported() -> None:
    class Haunted(WatchedTree):
        def metadata(self, path: ResourcePath) -> MaybeAwaitable[Resource]:
            if path[-1:] == ("ghost",):
                raise ResourceNotFound
            return super().metadata(path)

    tree = Haunted({"a": "", "ghost": ""})
    async with watched_listing(tree) as (summary, events):
        assert summary == "1 document and 1 collection"
        tree.set("b", to="")
        assert await events.next() == "added b"


@pytest.mark.anyio
async def test_a_provider_that_reports_no_changes_is_listed_at_intervals() -> None:
    nodes = {"a": ""}
    tree = Tree(nodes)
    async with watched_listing(tree, polls=True, timing=Timing(watch_listing_interval_s=0.02)) as (
        _,
        events,
    ):
        nodes["b"] = ""
        assert await events.next() == "added b"
        del nodes["a"]
        assert await events.next() == "removed a"


def test_events_go_to_the_first_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # While a plugin is imported in a thread, `sys.stdout` is another stream.
    printer = EventPrinter(as_json=False)
    with contextlib.redirect_stdout(sys.stderr):
        printer.print_event("added", "test://one/a")
    out, err = capsys.readouterr()
    assert out.endswith("  added    test://one/a\n")
    assert err == ""


def test_control_characters_in_a_uri_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    EventPrinter(as_json=False).print_event("removed", "test://one/\x1b[31m\u202e")
    assert capsys.readouterr().out.endswith("  removed  test://one/\\x1b[31m\\u202e\n")


def test_json_events_are_utf_8_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    EventPrinter(as_json=True).print_event("changed", "test://one/ü")
    assert written.getvalue().startswith('{"event":"changed","uri":"test://one/ü",'.encode())
