"""Non-interference: what a caller may not see never changes a byte of what it gets.

A case has two worlds that differ only in hidden parts: the first is turned into the second, so that
what is visible stays the very same files, rows and tables. Servers of both are sent the same
requests, each chosen by the responses before it, and answer with the same bytes. A server that runs
while the worlds change sends no notification, and answers like the others afterwards. Either world
may be searched with an index, which was begun while less was hidden. Every request is followed by
the explorer's pages about it, opened by a browser of the same caller, who is no operator: their
statuses, headers and bodies are compared, too, all but `Date`.

Allowed to differ, as docs/security.md tells:

* time: how long a response takes, and what a deadline cuts off for that reason;
* estimates of a server's planner (`rowCountKind: estimate`), which count hidden rows: shown only
  for tables without `where` whose exact count takes too long;
* the order of rows without a key, and of a declared query without `order by`: the engine's;
* hashes of `mask: hash`: equal values have equal hashes, so hidden values show as equal or not;
* NULL in a masked column: it is shown as NULL;
* SQLite's numbers of rows (`rowid`) where they are the key: gaps tell of other rows;
* rows of tables that inherit from a visible one (PostgreSQL): they are rows of that table;
* size, times and version of a file that is listed but not `readable`: they are not hidden.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from resource_server.catalog.mount import Mount
from resource_server.explorer.addresses import LIVE, page_address
from resource_server.protocol.server import Server
from resource_server.providers.filesystem import Filesystem
from resource_server.serving import server_builder
from tests.providers.database.owners import Owner
from tests.providers.filesystem.search_index.oracle import until_current
from tests.waiting import quiet_for, steady, until
from tests.worlds import folders, manifests, twin_databases
from tests.worlds.callers import CallerKind, Client, callers, client_of
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.http_callers import http_client_of
from tests.worlds.kept_twins import KEPT
from tests.worlds.pages import Opening
from tests.worlds.requests import Conversation, Step, steps
from tests.worlds.sabotages import SABOTAGES
from tests.worlds.twin_databases import NoServerError
from tests.worlds.twins import Twins

KINDS = (*["folder"] * 5, *twin_databases.KINDS)
_INDEXED = (*[(False, False)] * 2, (True, True), (True, False), (False, True))
_QUIET_S = 0.2
"""Longer than a notification takes with the times of `manifests.PATIENT`."""


class _World:
    """The place of a case: first the one world, then the other."""

    def __init__(self, case: Twins, place: Path, owner: Owner | None) -> None:
        self._case = case
        self._place = place
        self._owner = owner

    @asynccontextmanager
    async def served(self, *, indexed: bool) -> AsyncGenerator[Server]:
        """Serve it as it is, once there is an index."""
        async with manifests.build(self._manifest(indexed=indexed), manifests.PATIENT) as server:
            await server.catalog.start()  # as `serve` does: no caller may see the whole folder
            if indexed:
                await until(lambda: all(map(_is_searchable, server.catalog.mounts)))
            yield server

    def _manifest(self, *, indexed: bool = False) -> Path:
        case = self._case
        manifest: dict[str, Any] = {
            "server": case.server,
            "http": {"auth": {"tokens": ["not-used-by-any-caller"]}},
        }
        if case.folder is not None:
            manifest["roots"] = case.folder.roots
            manifest["prompts"] = manifests.prompts_of("file:///r/{+path}")
            if indexed:
                manifest["roots"]["r"] |= {"index": True, "cache": "cache"}
        if case.database is not None and self._owner is not None:
            manifest["databases"] = {"shop": case.database.options(self._owner.url)}
        return manifests.write(self._place, manifest)

    async def make(self) -> None:
        """Make the first world."""
        if self._case.folder is not None:
            self._case.folder.make(self._place)
            if any(self._case.indexed):
                await self._index_everything()
        if self._case.database is not None and self._owner is not None:
            await twin_databases.run(self._owner, self._case.database.setup)
            if self._case.database.needs_login:
                await self._make_policy(self._owner, self._case.database.engine)

    async def _index_everything(self) -> None:
        """Build the index while nothing is hidden that rules could expose."""
        root, cache = self._place / "root", self._place / "cache"
        folder = Filesystem(root, index=True, cache=cache, hidden=True, gitignore=False)
        folder.timing = manifests.PATIENT
        async with folder:
            await until_current(folder)

    async def hide(self, server: Server) -> None:
        """Hide what ignore files hide, after a search."""
        if self._case.folder is not None:
            async with client_of(server, self._case.caller) as client:
                conversation = Conversation(client, self._case.guesses, ("secret",), (), {})
                await conversation.take(Step("search"))
            self._case.folder.hide(self._place)

    async def _make_policy(self, owner: Owner, engine: str) -> None:
        manifest = server_builder.load_manifest(str(self._manifest()), allow_plugins=False)
        providers = dict(server_builder.make_providers(manifest, allow_plugins=False))
        await twin_databases.make_policy(owner, providers["shop"], engine)

    async def change(self) -> None:
        """Make the second world of the first."""
        if self._case.folder is not None:
            self._case.folder.change(self._place)
        if self._case.database is not None and self._owner is not None:
            await twin_databases.run(self._owner, self._case.database.change)


@asynccontextmanager
async def _world(case: Twins) -> AsyncGenerator[_World]:
    place = Path(tempfile.mkdtemp(prefix="worlds-"))
    try:
        async with AsyncExitStack() as stack:
            owner = None
            if case.database is not None:
                new = twin_databases.new_database(case.database.engine, place)
                owner = await stack.enter_async_context(new)
            yield _World(case, place, owner)
    finally:
        shutil.rmtree(place)


async def check(case: Twins, tally: Tally) -> None:
    """Compare both worlds of a case."""
    try:
        async with _world(case) as world:
            await world.make()
            await _compare(case, world, tally)
    except NoServerError as missing:
        tally.count(f"cases without {missing}")


async def _compare(case: Twins, world: _World, tally: Tally) -> None:
    before, after = case.indexed
    async with world.served(indexed=before) as server:
        await world.hide(server)
        first = await _talk(case, server)
        if case.listens:
            await _keep_silent(case, world, server, first)
            tally.count("silences")
        else:
            await world.change()
            await quiet_for(manifests.CACHE_S)
        if not case.restarts:
            _assert_same(first, await _talk(case, server), tally)
    if case.restarts:
        async with world.served(indexed=after) as server:
            _assert_same(first, await _talk(case, server), tally)


async def _keep_silent(case: Twins, world: _World, server: Server, first: Conversation) -> None:
    """Change the worlds while a client listens."""
    async with client_of(server, case.caller) as client:
        targets = [*first.known.seen, *case.guesses]
        await _subscribe(client, targets)
        live = [client.watch(Opening(f"{LIVE}{page_address(uri)}")) for uri in targets]
        for page in live:
            await page.begin()

        def told() -> Sequence[bytes]:
            return [*client.notifications, *(event for page in live for event in page.events)]

        await steady(lambda: len(told()), _QUIET_S)
        before = Counter(told())
        await world.change()
        await quiet_for(_QUIET_S)
        more = Counter(told()) - before
        for page in live:
            await page.close()
        if more:
            raise Violation(f"a change of hidden things is told: {list(more)}")


def _is_searchable(mount: Mount) -> bool:
    state = mount.provider.index_state
    return state is None or state.is_complete


async def _talk(case: Twins, server: Server) -> Conversation:
    connected = http_client_of if case.over_http else client_of
    async with connected(server, case.caller) as client:
        conversation = Conversation(
            client,
            case.guesses,
            case.words,
            case.values,
            {"schema": "public", "table": "people"},
            opens_pages=case.opens_pages,
        )
        await conversation.explore()
        for step in case.steps:
            await conversation.take(step)
        return conversation


async def _subscribe(client: Client, targets: Sequence[str]) -> None:
    if client.kind.is_modern:
        client.listen(list(targets))
        await until(lambda: client.notifications)  # the acknowledgement
        return
    for uri in targets:
        await client.ask("resources/subscribe", {"uri": uri})


def _assert_same(one: Conversation, other: Conversation, tally: Tally) -> None:
    for before, after in zip(one.client.exchanges, other.client.exchanges, strict=False):
        if before != after:
            raise Violation(
                f"answered differently: {before.request}\n"
                f"{_around(before.response, after.response)}\n"
                f"{_around(after.response, before.response)}"
            )
    pages = sum(each.is_page for each in one.client.exchanges)
    tally.count("requests", len(one.client.exchanges) - pages)
    tally.count("pages", pages)


def _around(response: bytes, other: bytes) -> str:
    """Return the part of a response that differs from another."""
    place = next(
        (
            place
            for place, pair in enumerate(zip(response, other, strict=False))
            if len(set(pair)) > 1
        ),
        min(len(response), len(other)),
    )
    return f"... {response[max(0, place - 150) : place + 250].decode(errors='replace')}"


@st.composite
def cases(draw: st.DrawFn, kinds: Sequence[str] = KINDS) -> Twins:
    """Generate twins of these kinds."""
    kind = draw(st.sampled_from(kinds))
    folder = database = None
    indexed = (False, False)
    if kind == "folder":
        folder, words = draw(folders.folder_twins()), folders.WORDS
    else:
        words = twin_databases.WORDS
        database = draw(twin_databases.database_twins(kind))
    caller = draw(callers)
    if folder is not None:
        needs = folder.access or "access" in str(folder.options)
        caller = CallerKind(caller.revision, caller.has_token or needs)
        indexed = draw(st.sampled_from(_INDEXED))
    return Twins(
        folder,
        database,
        caller,
        draw(manifests.server_options),
        tuple(draw(st.sets(st.sampled_from(words), min_size=1, max_size=3))),
        tuple(draw(st.lists(steps, max_size=12))),
        draw(st.sampled_from((False, False, True))),
        draw(st.booleans()) or indexed[0] != indexed[1],
        caller.has_token and draw(st.sampled_from((False, False, True))),
        indexed,
    )


def _searched_by_index(case: Twins) -> Twins:
    """Return a case whose caller searches in two folders with an index."""
    found = _searching(case)
    return replace(found, words=("secret", *found.words), indexed=(True, True), over_http=False)


def _searching(case: Twins) -> Twins:
    """Return a case of a caller with a token, who searches for what other scopes see."""
    assert case.folder is not None
    return replace(
        case,
        folder=replace(case.folder, access=True),
        caller=CallerKind(case.caller.revision, has_token=True),
        words=("plan", *case.words),
    )


def _without_pages(case: Twins) -> Twins:
    """Return a case in a third of the time, for leaks that are not of pages."""
    return replace(case, opens_pages=False)


_PAGES_OF_A_FOLDER = cases(("folder",))
_OF_A_FOLDER = _PAGES_OF_A_FOLDER.map(_without_pages)
_OF_SQLITE = cases(("sqlite",)).map(_without_pages)
_SABOTAGED: Mapping[str, st.SearchStrategy[Twins]] = {
    **dict.fromkeys(("dots", "guessed uri", "event"), _OF_A_FOLDER),
    "scope of search": _OF_A_FOLDER.map(_searching),
    "operators": _PAGES_OF_A_FOLDER,
    "scope of pages": _PAGES_OF_A_FOLDER.map(_searching),
    **dict.fromkeys(("scope of index", "rules of index"), _OF_A_FOLDER.map(_searched_by_index)),
    **dict.fromkeys(
        ("where of completion", "where of count", "hidden column", "mask", "mask in SQL"),
        _OF_SQLITE,
    ),
}

PROPERTY = Property(
    name="noninterference",
    cases=cases(),
    check=check,
    sabotages=SABOTAGES,
    sabotaged=_SABOTAGED,
    kept=KEPT,
)
