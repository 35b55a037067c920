"""Every row once: pages, listings and addresses against the engine's own SELECT.

For each relation of a generated schema, read as clients read it:

* the pages of every size return each visible row exactly once, in one order, and end;
* the listing has one address for each row whose key has no NULL, and each address reads its row;
* rows that stay are returned exactly once while others come and go between two pages;
* suggested keys are of rows, and a search finds each row once;
* a key too long for a cursor ends the pages early, which says so: `more` without `next`;
* forged cursors and addresses give an error of the client's, or visible rows, and end.
"""

from __future__ import annotations

import csv
import glob
import io
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from resource_server import uris
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.errors import (
    DeadlineExceeded,
    InvalidParameter,
    NotACollection,
    NotSearchable,
    ResourceNotFound,
)
from resource_server.provider import ByteSize, Path, Resource
from resource_server.providers.database.addressing.address import RowAddress, TableAddress
from resource_server.providers.database.engines.contract import Statement
from resource_server.providers.database.options import ColumnOptions, ReadLimits, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.database.reading.exposed_table import ExposedTable, TablePage
from resource_server.providers.database.reading.statements import Statements
from resource_server.providers.database.reading.tree import DatabaseTree
from resource_server.runtime.option_types import Duration
from tests.listeners import BASE, mounted
from tests.worlds.column_types import LONG, EngineName
from tests.worlds.databases import (
    ENGINES,
    TAG,
    LiveDatabase,
    NoServer,
    Relation,
    Schema,
    shared_database,
)
from tests.worlds.forgeries import SEGMENTS, forged_cursor
from tests.worlds.harness import Property, Tally, Violation
from tests.worlds.schemas import schemas

_REFUSALS = (InvalidParameter, ResourceNotFound, NotACollection)
"""What a forged address or cursor may be answered with."""
_SLOW = DeadlineExceeded


@dataclass(frozen=True)
class Visit:
    """How one relation is served and read."""

    where: int | None = None
    """Rows with a smaller tag are hidden."""
    hide: int | None = None
    """The place of a hidden column among the columns."""
    mask: int | None = None
    """The place of a masked column."""
    key: tuple[int, ...] | None = None
    """The places of declared key columns, which the tag follows and makes unique."""
    limits: tuple[int, ...] = (1, 2, 100)
    format: Literal["json", "columns", "csv"] = "json"
    columns: int | None = None
    """The place of the only column besides the tag that pages return."""
    page_size: int = 2
    churn: int = 0
    """The seed of the rows that come and go between two pages; 0 keeps them."""
    forgeries: int = 0
    """The seed of forged cursors and addresses; 0 forges none."""


@dataclass(frozen=True)
class Case:
    """A schema, and a visit to each of its relations."""

    schema: Schema
    visits: tuple[Visit, ...]
    bytes: int = 1024 * 1024
    """Maximum bytes of a page."""


@cache
def visits() -> st.SearchStrategy[Visit]:
    """Return visits of every sort."""
    places = st.integers(0, 4)
    return st.builds(
        Visit,
        where=st.none() | st.none() | st.integers(0, 3),
        hide=st.none() | st.none() | places,
        mask=st.none() | st.none() | st.none() | places,
        key=st.none() | st.none() | st.lists(places, max_size=2, unique=True).map(tuple),
        limits=st.sampled_from(((1, 2, 100), (1, 3), (2, 5), (7, 1))),
        format=st.sampled_from(("json", "columns", "csv")),
        columns=st.none() | st.none() | places,
        page_size=st.sampled_from((2, 1, 3, 100)),
        churn=st.integers(0, 3),
        forgeries=st.integers(0, 1000),
    )


@st.composite
def cases(draw: st.DrawFn, engines: Sequence[EngineName] = ENGINES) -> Case:
    """Return cases for some engines."""
    schema = draw(schemas(engines))
    chosen = tuple(draw(visits()) for _ in schema.relations)
    return Case(schema, chosen, draw(st.sampled_from((1024 * 1024, 1024 * 1024, 1000, 300))))


async def check(case: Case, tally: Tally) -> None:
    """Serve the schema and read all of it.

    Raises:
        Violation: a row was lost, repeated, wrong or hidden, or an error was not the client's.
    """
    try:
        database = await shared_database(case.schema.engine)
    except NoServer:
        tally.count(f"cases without {case.schema.engine}")
        return
    tally.count(f"cases of {case.schema.engine}")
    built = await database.build(case.schema)
    chosen = [
        (relation, visit)
        for relation, visit in zip(case.schema.relations, case.visits, strict=True)
        if relation in built
    ]
    tally.count("relations refused by the engine", len(case.schema.relations) - len(built))
    if not chosen:
        return
    options = {
        _pattern(case.schema, relation): _options(database, relation, visit)
        for relation, visit in chosen
    }
    limits = ReadLimits(timeout=Duration(20), bytes=ByteSize(case.bytes))
    provider = Database(url=database.url, tables=options, watch="off", limits=limits)
    mount = mounted(provider)
    async with AsyncExitStack() as stack:
        catalogs = {
            size: Catalog([mount], CatalogLimits(page_size=size, search_hits=size))
            for size in {100, *(visit.page_size for _, visit in chosen)}
        }
        stack.push_async_callback(catalogs[100].__aexit__)
        if problems := await catalogs[100].start():
            raise Violation(f"the database is not served: {problems}")
        top = await _found_children(catalogs[100], case.schema)
        for relation, visit in chosen:
            if relation.name not in top:
                raise Violation(f"{relation.name!r} is not listed")
            reader = _Reader(
                database,
                catalogs[visit.page_size],
                tally,
                relation=relation,
                visit=visit,
                uri=top[relation.name],
                bytes=case.bytes,
            )
            try:
                await reader.check()
            except _SLOW:
                tally.count("given up: the machine is busy")
            except Violation as violation:
                raise Violation(f"{relation.name!r}: {violation}") from violation
            except Exception as error:
                raise Violation(f"{relation.name!r}: {type(error).__name__}: {error}") from error
            tally.count("relations")


def _pattern(schema: Schema, relation: Relation) -> str:
    prefix = f"{schema.namespace}." if schema.engine == "postgresql" else ""
    return glob.escape(prefix + relation.name)


def _options(database: LiveDatabase, relation: Relation, visit: Visit) -> TableOptions:
    hidden, masked = _column(relation, visit.hide), _column(relation, visit.mask)
    key: tuple[str, ...] = ()
    # A declared key is the author's promise that it is unique.
    if visit.key is not None and not any("UNION" in each for each in relation.create):
        key = tuple(
            name
            for place in visit.key
            if (name := _column(relation, place)) not in (None, hidden, masked)
        )
        key = (*key, TAG)
    columns = ColumnOptions(
        hide=() if hidden is None else (hidden,),
        mask={} if masked in (None, hidden) else {masked: "redact"},
    )
    where = None if visit.where is None else f"{TAG} >= {visit.where}"
    search = tuple(name for name in relation.columns if name not in (hidden, masked))
    return TableOptions(key=key, columns=columns, where=where, search=search)


def _column(relation: Relation, place: int | None) -> str | None:
    return relation.columns[place] if place is not None and place < len(relation.columns) else None


async def _found_children(catalog: Catalog, schema: Schema) -> Mapping[str, str]:
    """Return the URIs of the listed tables, by name."""
    uri = BASE
    if schema.engine == "postgresql":
        found = await _listed(catalog, uri)
        uri = next(entry.uri for entry in found if entry.resource.name == schema.namespace)
    return {entry.resource.name: entry.uri for entry in await _listed(catalog, uri)}


async def _listed(catalog: Catalog, uri: str, after: str | None = None) -> list[Any]:
    page = await catalog.list(uri, after)
    found = list(page.entries)
    while page.next_cursor is not None:
        if len(found) > 1000:
            raise Violation(f"the listing of {uri} has no end")
        page = await catalog.list(uri, page.next_cursor)
        found += page.entries
    return found


class _Page(NamedTuple):
    """A page as any format has it; `rows` are objects, in JSON only."""

    tags: list[int]
    rows: list[dict[str, Any]]
    more: bool
    next: str | None
    previous: str | None = None


class _Reader:
    """Reads one relation in every way."""

    def __init__(
        self,
        database: LiveDatabase,
        catalog: Catalog,
        tally: Tally,
        *,
        relation: Relation,
        visit: Visit,
        uri: str,
        bytes: int,
    ) -> None:
        self._bytes = bytes
        self._database = database
        self._catalog = catalog
        self._tally = tally
        self._relation = relation
        self._visit = visit
        self._uri = uri
        self._canonical: set[str] = set()
        self._cursors: list[str] = []
        self._list_cursors: list[tuple[str, str]] = []
        self._random = random.Random(visit.churn)  # noqa: S311

    async def check(self) -> None:
        details = (await self._catalog.metadata(self._uri)).resource.details or {}
        self._key: Sequence[str] = details["table"]["key"]
        self._key_kind: str = details["table"]["keyKind"]
        truth = await self._truth()
        self._tally.count("rows", truth.total())
        orders = [await self._check_pages(limit, truth) for limit in self._visit.limits]
        self._check_order(orders)
        if self._key:
            await self._check_addresses(truth)
        if self._visit.churn and self._key:
            await self._check_while_rows_change()
        if self._visit.forgeries:
            await self._check_forgeries()

    # -- what the engine says

    async def _truth(self, condition: str = "") -> Counter[int]:
        """Return the tags of the visible rows, as the owner reads them."""
        conditions = [condition] if condition else []
        if self._visit.where is not None:
            conditions.append(f"{TAG} >= {self._visit.where}")
        name = self._database.quoted(self._relation.name)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = await self._database.rows(f"SELECT {TAG} FROM {name}{where}")  # noqa: S608
        return Counter(int(tag) for (tag,) in rows)

    async def _addressed(self) -> Counter[int]:
        """Return the tags of the rows whose key has no NULL."""
        conditions = [f"{self._database.quoted(name)} IS NOT NULL" for name in self._key]
        return await self._truth(" AND ".join(conditions))

    # -- pages

    async def _check_pages(self, limit: int, truth: Counter[int]) -> list[int]:
        """Return the tags in the order of the pages."""
        found: list[int] = []
        last = 0
        async for page in self._pages(self._first_page(limit), limit):
            found += page
            last = len(page)
        if self._is_cut:
            self._check_cut(Counter(found), truth)
        elif Counter(found) != truth:
            raise Violation(f"pages of {limit} return {found}, the engine {_sorted(truth)}")
        elif len(found) > last and self._visit.format != "csv":
            await self._check_way_back(limit, found[: len(found) - last])
        self._tally.count("rows in pages", len(found))
        return found

    async def _check_way_back(self, limit: int, expected: list[int]) -> None:
        """Go back from the last page, whose cursor was the last one."""
        found: list[int] = []
        first = uris.parse(self._first_page(limit)).query
        query = {**first, "until": self._cursors[-1]}
        uri: str | None = uris.with_query(f"{self._uri}/~rows", query)
        for _ in range(len(expected) + 1):
            if uri is None:
                break
            page = await self._page(uri)
            found[:0] = page.tags
            uri = page.previous
        if found != expected:
            raise Violation(f"pages of {limit} back return {found}, and forth {expected}")

    def _first_page(self, limit: int) -> str:
        query = {"limit": str(limit)}
        if self._visit.format != "json":
            query["format"] = self._visit.format
        name = _column(self._relation, self._visit.columns)
        is_hidden = self._visit.hide == self._visit.columns
        # MariaDB renames the columns of a view whose names begin with a space.
        if name is not None and not is_hidden and "," not in name and name == name.strip():
            query["columns"] = f"{TAG},{name}"
        return uris.with_query(f"{self._uri}/~rows", query)

    async def _pages(
        self, uri: str | None, limit: int, *, most: int | None = None
    ) -> AsyncIterator[list[int]]:
        """Yield the tags of each page from this one on; `_is_cut` says whether they end early."""
        self._is_cut = False
        pages = 0
        most = 2 * len(self._relation.rows) + 3 if most is None else most
        while uri is not None:
            page = await self._page(uri)
            pages += 1
            tags = page.tags
            if len(tags) > limit:
                raise Violation(f"a page of {limit} has {len(tags)} rows: {uri}")
            if not tags and page.next is not None:
                raise Violation(f"an empty page has a next one: {uri}")
            if pages > most:
                raise Violation(f"the pages do not end: {uri}")
            yield tags
            self._is_cut = page.more and page.next is None
            if not page.more and page.next is not None:
                raise Violation(f"the last page has a next one: {uri}")
            uri = page.next
            if uri is not None:
                self._cursors.append(uris.parse(uri).query["after"])

    async def _page(self, uri: str) -> _Page:
        (item,) = (await self._catalog.read(uri)).items
        self._tally.count("requests")
        assert item.content is not None
        is_truncated = item.content.truncated is not None
        if item.content.mime_type == "text/csv":
            head, *rows = csv.reader(io.StringIO(str(item.content.data), newline=""))
            tags = [int(row[head.index(TAG)]) for row in rows]
            return _Page(tags, [], is_truncated, item.next_uri)
        page: dict[str, Any] = json.loads(item.content.data)
        if is_truncated != page["more"] or _query(item.next_uri) != _query(page["next"]):
            said = page["more"], page["next"]
            raise Violation(f"{uri} says {said}, its content {item.next_uri}")
        rows = page["rows"]
        if "columns" in page:
            place = page["columns"].index(TAG)
            tags, rows = [row[place] for row in rows], []
        else:
            tags = [row[TAG] for row in rows]
        return _Page(tags, rows, page["more"], page["next"], page.get("previous"))

    def _check_cut(self, found: Counter[int], truth: Counter[int]) -> None:
        if found - truth:
            raise Violation(f"pages return {_sorted(found)}, the engine {_sorted(truth)}")
        if not self._has_long_keys(truth):
            raise Violation(f"the pages end early, after {_sorted(found)}")
        self._tally.count("tables cut")

    def _check_order(self, orders: Sequence[list[int]]) -> None:
        """Check that pages of every size have one order, as far as they reach."""
        # Rows with NULL in their key come last, in any order.
        if not self._key or self._may_hold_null:
            return
        longest = max(orders, key=len)
        for order in orders:
            if order != longest[: len(order)]:
                raise Violation(f"pages have the orders {longest} and {order}")

    @property
    def _may_hold_null(self) -> bool:
        names = [self._relation.columns.index(n) for n in self._key if n in self._relation.columns]
        return any("NULL" in row[place] for row in self._relation.rows for place in names)

    # -- addresses

    async def _check_addresses(self, truth: Counter[int]) -> None:
        addressed = await self._addressed()
        found: dict[str, int] = {}
        pages: dict[int, dict[str, Any]] = {}
        async for page in self._row_pages():
            for row in page:
                pages[row[TAG]] = row
        for uri in await self._row_uris(self._uri, 1):
            tag = await self._check_row(uri, pages)
            if uri in found:
                raise Violation(f"{uri} is listed twice")
            found[uri] = tag
        tags = Counter(found.values())
        missing = addressed - tags
        long = Counter({tag: n for tag, n in missing.items() if self._has_long_keys([tag])})
        if tags != addressed - long:
            raise Violation(f"addresses read {_sorted(tags)}, the engine {_sorted(addressed)}")
        self._tally.count("addresses", len(found))
        await self._check_completion(set(found))
        await self._check_search(len(found))
        if self._visit.churn and len(self._key) == 1:
            await self._check_listing_while_rows_change(found)

    async def _row_pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        uri: str | None = f"{self._uri}/~rows"
        while uri is not None:
            page = await self._page(uri)
            yield page.rows
            uri = page.next

    async def _row_uris(self, uri: str, depth: int) -> list[str]:
        """Return the URIs of the rows below a collection."""
        documents = {f"{self._uri}/~rows", f"{self._uri}/~schema"}
        found: list[str] = []
        page = await self._catalog.list(uri)
        entries = list(page.entries)
        while page.next_cursor is not None:
            self._list_cursors.append((uri, page.next_cursor))
            if len(entries) > 1000:
                raise Violation(f"the listing of {uri} has no end")
            page = await self._catalog.list(uri, page.next_cursor)
            entries += page.entries
        listed = [entry for entry in entries if depth > 1 or entry.uri not in documents]
        if depth == 1 and len(entries) - len(listed) != len(documents):
            raise Violation(f"{self._uri} does not list each of its documents once")
        for entry in listed:
            is_row = depth == len(self._key)
            if (entry.resource.type == "document") != is_row:
                raise Violation(f"{entry.uri} is listed as a {entry.resource.type}")
            described = await self._catalog.metadata(entry.uri)
            self._canonical.add(described.uri)
            if described.uri != entry.uri:
                await self._check_equal_prefix(entry.uri, described.uri)
            if is_row and described.resource.version != entry.resource.version:
                raise Violation(f"{entry.uri} has two versions")
            found += [entry.uri] if is_row else await self._row_uris(entry.uri, depth + 1)
            self._tally.count("requests")
        if len(set(found)) < len(found):
            raise Violation(f"{uri} lists a row twice: {found}")
        return found

    async def _check_row(self, uri: str, pages: Mapping[int, Any]) -> int:
        """Check one row and its cells; return its tag."""
        (item,) = (await self._catalog.read(uri)).items
        assert item.content is not None
        row: dict[str, Any] = json.loads(item.content.data)
        tag: int = row[TAG]
        if item.entry.uri != uri:
            await self._check_equal_prefix(uri, item.entry.uri)
        held = pages.get(tag)
        if (
            self._bytes > 1000
            and held is not None
            and any(row.get(name) != value for name, value in held.items())
        ):
            raise Violation(f"{uri} reads {row}, its page {held}")
        (cell,) = (await self._catalog.read(f"{uri}/~cell/{TAG}")).items
        assert cell.content is not None
        if cell.content.data != str(tag):
            raise Violation(f"{uri} has the tag {tag}, its cell {cell.content.data!r}")
        if tag < 3:
            for name in row.keys() & {*self._relation.columns}:
                await self._catalog.read(f"{uri}/~cell/{_segment(uris.encode_text(name))}")
        self._tally.count("requests", 2)
        return tag

    async def _check_completion(self, addresses: set[str]) -> None:
        """Check that each suggested key is one of a row, or begins some."""
        path = uris.parse(self._uri).path
        names: Sequence[str] = ("schema", "table")[-len(path) :]
        template = f"{BASE}{'/'.join(f'{{{name}}}' for name in names)}/{{+key}}"
        given: dict[str, str] = dict(zip(names, path, strict=True))
        suggested = await self._catalog.complete(template, "key", "", given)
        for value in suggested.values:
            uri = uris.expand(f"{self._uri}/{{+key}}", {"key": value})
            if not any(each == uri or each.startswith(uri) for each in addresses):
                raise Violation(f"no row has the suggested key {value!r}")
        self._tally.count("suggested keys", len(suggested.values))

    async def _check_search(self, rows: int) -> None:
        """Check that each hit is an addressed row, or a document of the table, and comes once."""
        documents = {f"{self._uri}/~rows", f"{self._uri}/~schema"}
        found: list[str] = []
        after: str | None = None
        for _ in range(2 * rows + 20):
            try:
                page = await self._catalog.search("a", uri=self._uri, where="text", after=after)
            except NotSearchable:
                if after is not None:
                    raise
                self._tally.count("tables without searched columns")
                return
            found += [hit.entry.uri for hit in page.hits]
            after = page.next_cursor
            if after is None:
                break
        else:
            raise Violation("the search does not end")
        if len(set(found)) < len(found) or not documents | self._canonical >= set(found):
            raise Violation(f"a search finds {found}, the listing {sorted(self._canonical)}")
        self._tally.count("hits", len(found))

    async def _check_equal_prefix(self, listed: str, canonical: str) -> None:
        """Check two addresses of one row below a value that equals its own by the collation.

        `e` and `E` are one collection if the column says that they are equal.
        """
        is_first = len(self._key) == 1
        if is_first or (await self._catalog.metadata(canonical)).uri != canonical:
            raise Violation(f"{listed} is described as {canonical}")
        self._tally.count("addresses of equal values")

    def _has_long_keys(self, tags: Iterable[int]) -> bool:
        """Return whether any of these rows has a value that is too long for a URI."""
        long = set(LONG.values())
        rows = [self._relation.rows[tag] for tag in tags]
        return any(not long.isdisjoint(row) for row in rows)

    # -- pages while rows come and go

    async def _check_while_rows_change(self) -> None:
        """Check that rows that stay are in the pages once while others come and go."""
        tags = list(range(len(self._relation.rows)))
        for tag in tags:
            if self._random.random() < 0.3:
                await self._database.delete(self._relation, tag)
        stay = await self._addressed()
        seen: Counter[int] = Counter()
        limit = self._visit.limits[0]
        async for page in self._pages(self._first_page(limit), limit):
            seen.update(page)
            still = await self._change()
            stay = Counter[int]({tag: number for tag, number in stay.items() if tag in still})
        wrong = {tag: seen[tag] for tag, number in stay.items() if seen[tag] != number}
        if wrong and not self._is_cut:
            raise Violation(f"rows that stayed were returned so many times: {wrong}")
        self._tally.count("rows that stayed", len(stay))

    async def _check_listing_while_rows_change(self, addresses: Mapping[str, int]) -> None:
        """The same for the listing of the table."""
        stay = set(addresses.values())
        seen: Counter[int] = Counter()
        page = await self._catalog.list(self._uri)
        while True:
            seen.update(addresses[each.uri] for each in page.entries if each.uri in addresses)
            if page.next_cursor is None:
                break
            stay &= await self._change()
            page = await self._catalog.list(self._uri, page.next_cursor)
        wrong = {tag: seen[tag] for tag in stay if seen[tag] != 1}
        if wrong:
            raise Violation(f"rows that stayed were listed so many times: {wrong}")

    async def _change(self) -> set[int]:
        """Delete or insert a row; return the tags of those that stay, as far as this one goes."""
        if not self._relation.rows:
            return set()
        changing = self._random.randrange(len(self._relation.rows))
        name = self._database.quoted(self._relation.name)
        select = f"SELECT {TAG} FROM {name} WHERE {TAG} = {changing}"  # noqa: S608
        if await self._database.rows(select):
            await self._database.delete(self._relation, changing)
        else:
            await self._database.insert(self._relation, [changing])
        return set(await self._addressed()) - {changing}

    # -- forgeries

    async def _check_forgeries(self) -> None:
        """Check that a forged cursor or address shows visible rows or is refused."""
        chance = random.Random(self._visit.forgeries)  # noqa: S311
        visible = await self._truth()
        limit = chance.choice((1, 2, 100))
        for cursor in _sample(chance, self._cursors, 4):
            forged = forged_cursor(cursor, chance)
            uri = uris.with_query(f"{self._uri}/~rows", {"limit": str(limit), "after": forged})
            await self._check_refused_or_visible(uri, limit, visible)
        for uri, cursor in _sample(chance, self._list_cursors, 4):
            forged = forged_cursor(cursor, chance)
            try:
                await _listed(self._catalog, uri, forged)
            except _REFUSALS:
                self._tally.count("forgeries refused")
            else:
                self._tally.count("forgeries served")
        for _ in range(4 if self._key else 0):
            await self._check_forged_address(chance, visible)

    async def _check_refused_or_visible(self, uri: str, limit: int, visible: Counter[int]) -> None:
        seen: Counter[int] = Counter()
        try:
            async for page in self._pages(uri, limit):
                seen.update(page)
        except _REFUSALS:
            self._tally.count("forgeries refused")
            return
        if seen - visible:
            raise Violation(f"a forged cursor returns {_sorted(seen)}: {uri}")
        self._tally.count("forgeries served")

    async def _check_forged_address(self, chance: random.Random, visible: Counter[int]) -> None:
        count = max(1, len(self._key) - chance.randrange(2))
        segments = [chance.choice(SEGMENTS) for _ in range(count)]
        uri = "/".join((self._uri, *map(_segment, segments)))
        try:
            if chance.random() < 0.5:
                await self._catalog.metadata(uri)
            if chance.random() < 0.3:
                column = uris.encode_text(chance.choice((TAG, *self._relation.columns)))
                uri += f"/~cell/{_segment(column)}"
            if chance.random() < 0.2:
                await _listed(self._catalog, uri)
            items = (await self._catalog.read(uri)).items
        except _REFUSALS:
            self._tally.count("forgeries refused")
            return
        for item in items:
            if item.content is None or "~cell" in uri:
                continue
            if item.entry.resource.mime_type != "application/json" or "~" in item.uri:
                continue
            row = json.loads(item.content.data)
            if row[TAG] not in visible:
                raise Violation(f"{uri} reads the hidden row {row}")
        self._tally.count("forgeries served")


def _query(uri: str | None) -> Mapping[str, str] | None:
    return None if uri is None else uris.parse(uri).query


def _sample(chance: random.Random, some: Sequence[Any], most: int) -> list[Any]:
    return [chance.choice(some) for _ in range(most)] if some else []


def _sorted(tags: Counter[int]) -> list[int]:
    return sorted(tags.elements())


def _segment(name: str) -> str:
    return uris.quote_segment(name)


# -- sabotages


@contextmanager
def _row_skipped() -> Generator[None]:
    """Lose the first row of every page but the first."""
    page = ExposedTable.page

    async def skipping(self: ExposedTable, limit: int, **given: Any) -> TablePage:
        if given.get("after") is None:
            return await page(self, limit, **given)
        found = await page(self, limit + 1, **given)
        rows = found.rows._replace(rows=found.rows.rows[1:])
        return found._replace(rows=rows, keyed=max(0, found.keyed - 1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExposedTable, "page", skipping)
        yield


@contextmanager
def _pages_rewritten(pattern: str, replacement: str) -> Generator[None]:
    """Change the SQL of every page."""
    page = Statements.page

    def rewritten(self: Statements, limit: int, **given: Any) -> Statement:
        statement = page(self, limit, **given)
        return Statement(re.sub(pattern, replacement, statement.sql), statement.parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Statements, "page", rewritten)
        yield


@contextmanager
def _lossy_addresses() -> Generator[None]:
    """Lose the case of the segments of rows in listings."""
    children = DatabaseTree.children

    async def lossy(
        self: DatabaseTree, path: Path, after: Path | None, limit: int
    ) -> Sequence[Resource]:
        found = await children(self, path, after, limit)
        if not isinstance(self.address(path), TableAddress | RowAddress):
            return found
        return [replace(each, path=(*path, each.path[-1].lower())) for each in found]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseTree, "children", lossy)
        yield


# -- cases found once


def _kept(
    engine: EngineName,
    name: str,
    *create: str,
    columns: tuple[str, ...] = (),
    rows: tuple[tuple[str, ...], ...] = (),
    into: tuple[str, ...] = (),
    namespace: str = "public",
    visit: Visit = Visit(limits=(1, 100)),  # frozen
) -> Case:
    relation = Relation(name, create, columns, rows, into or (name,))
    return Case(Schema(engine, (relation,), namespace), (visit,))


_KEPT = (
    # Names that look like the parameters of a driver.
    *(
        _kept(
            "sqlite",
            name,
            f'CREATE TABLE "{name}" (tag integer, "{name}" integer PRIMARY KEY)',
            columns=(name,),
            rows=(("1",), ("2",), ("3",)),
        )
        for name in ("%(k0)s", "%(limit)s", "%%", "%s", "?", ":k0")
    ),
    _kept(
        "postgresql",
        "t",
        'CREATE TABLE t (tag integer, "%(k0)s" integer PRIMARY KEY)',
        columns=("%(k0)s",),
        rows=(("1",), ("2",), ("3",)),
        namespace="%(limit)s",
    ),
    # A table named as a part of the statement that lists the values of a key's first column.
    *(
        _kept(
            engine,
            "found",
            "CREATE TABLE found (tag integer, a integer, b integer, PRIMARY KEY (a, b))",
            columns=("a", "b"),
            rows=(("1", "1"), ("1", "2"), ("2", "1"), ("3", "1")),
        )
        for engine in ENGINES
    ),
    # Children of a table inherit neither its keys nor that columns of its primary key hold no NULL.
    _kept(
        "postgresql",
        "t",
        "CREATE TABLE t (tag integer, a char(4), b integer, PRIMARY KEY (b, a), UNIQUE (a))",
        "CREATE TABLE child () INHERITS (t)",
        columns=("a", "b"),
        rows=(("'x'", "1"), ("'x'", "1"), ("'y'", "2"), ("NULL", "NULL"), ("'z'", "3")),
        into=("t", "child"),
    ),
    # Types without an order or a text of their own.
    *(
        _kept(
            "postgresql",
            "t",
            f"CREATE TABLE t (tag integer, k {type} PRIMARY KEY)",
            columns=("k",),
            rows=tuple((f"'{value}'",) for value in values),
            visit=Visit(limits=(1, 2, 100), key=key),
        )
        for key in (None, (0,))
        for type, *values in (
            ("tid", "(0,1)", "(0,2)", "(4294967295,65535)"),
            ("regtype", "integer", "text", "0"),
            ("regclass", "pg_class", "4294967295", "0"),
            ("varbit(9)", "", "1", "01"),
            ("xid8", "5", "9223372036854775808", "18446744073709551615"),
        )
    ),
    # Values that are stored with less precision than they are compared with.
    *(
        _kept(
            "mariadb",
            "t",
            f"CREATE TABLE t (tag bigint, k {type} NOT NULL)",
            columns=("k",),
            rows=(("0.1",), ("12345.6",), ("12345.6",), ("1",), ("0",)),
            visit=Visit(limits=(1, 2, 100), key=(0,)),
        )
        for type in ("float(7,3)", "float", "bit(64)")
    ),
    # The value of an enumeration for a label that it has not.
    _kept(
        "mariadb",
        "t",
        "CREATE TABLE t (tag bigint, k enum('b', 'a'), id int, PRIMARY KEY (k, id))",
        columns=("k", "id"),
        rows=(("'other'", "1"), ("'other'", "2"), ("'a'", "3"), ("'b'", "4")),
    ),
    # An index compares the spaces after a CHAR that conditions leave out.
    _kept(
        "mariadb",
        "t",
        "CREATE TABLE t (tag bigint, k char(10) CHARACTER SET utf8mb4"
        " COLLATE utf8mb4_unicode_520_nopad_ci PRIMARY KEY)",
        columns=("k",),
        rows=(("'A'",), ("'b'",), ("'c'",), ("'a\u0308'",)),
    ),
    # NULL where a UUID is expected.
    _kept(
        "mariadb",
        "t",
        "CREATE TABLE t (tag bigint, k uuid)",
        columns=("k",),
        rows=(("NULL",), ("'ffffffff-ffff-ffff-ffff-ffffffffffff'",), ("NULL",)),
        visit=Visit(limits=(1, 2, 100), key=(0,)),
    ),
    # Rows without a key: of a view, with duplicates, and with NULL in their key.
    *(
        _kept(
            engine,
            "v",
            f"CREATE TABLE t (tag {type}, k {type}, other {type})",
            "CREATE VIEW v AS SELECT * FROM t UNION ALL SELECT * FROM t",
            columns=("k", "other"),
            rows=(("1", "NULL"), ("NULL", "1"), ("NULL", "1"), ("2", "1"), ("NULL", "NULL")),
            into=("t",),
            visit=Visit(limits=(1, 2, 3, 100), columns=1, mask=1),
        )
        for engine, type in zip(ENGINES, ("any", "integer", "bigint"), strict=True)
    ),
    *(
        _kept(
            engine,
            "t",
            "CREATE TABLE t (tag bigint, k bigint)",
            columns=("k",),
            rows=(("1",), ("NULL",), ("NULL",), ("2",), ("NULL",)),
            visit=Visit(limits=(1, 2, 3, 100), key=(0,)),
        )
        for engine in ENGINES
    ),
    # Whole numbers in a column that SQLite computes while it reads, and forgets while it sorts.
    *(
        _kept(
            "sqlite",
            name,
            "CREATE TABLE t (tag integer, r real AS (tag / 2.0) VIRTUAL)",
            "CREATE VIEW v AS SELECT * FROM t",
            rows=((), (), (), ()),
            into=("t",),
            visit=Visit(limits=(1, 100), key=()),
        )
        for name in ("t", "v")
    ),
)


PROPERTY = Property(
    name="rows",
    cases=cases(),
    check=check,
    kept=_KEPT,
    sabotages={
        "row skipped": _row_skipped,
        "cursor row again": partial(_pages_rewritten, " > ", " >= "),
        "order descending": partial(_pages_rewritten, r"(ORDER BY .+?)(\s+LIMIT)", r"\1 DESC\2"),
        "lossy addresses": _lossy_addresses,
    },
)
