"""As shown, so taken: a value that a page shows is a value wherever values are taken.

For one column of every type of an engine, against the engine's own comparisons:

* `where.c.null=true` finds the rows that are NULL in the database, and a page shows only these as
  `null`;
* `where.c=` a shown value finds its row, and only rows that are equal to it or shown as it is;
* `le` is `lt` or `eq`, `ge` is `gt` or `eq`, `ne` is neither NULL nor `eq`, `in` is `eq`;
* a sorted page has a next one after every row but the last, in the order of the engine;
* groups, `min` and `max` are shown values, and the right ones;
* `like` finds a row by its shown text;
* the shown values of a key address its row.

What is not offered is refused with the name of its type, and for every value.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import strategies as st

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.errors import DeadlineExceeded, InvalidParameter, ResourceNotFound
from resource_server.providers.database.addressing import key_types
from resource_server.providers.database.formats import values
from resource_server.providers.database.options import ReadLimits
from resource_server.providers.database.provider import Database
from resource_server.providers.database.reading import selection
from resource_server.providers.database.reading.statements import Statements
from resource_server.runtime.option_types import Duration
from tests.listeners import BASE, mounted
from tests.worlds.column_types import (
    LABELS,
    LONG,
    POSTGRES_SETUP,
    TYPES,
    EngineName,
    literal,
    quoted,
)
from tests.worlds.databases import TAG, LiveDatabase, NoServer, Relation, Schema, shared_database
from tests.worlds.harness import Property, Tally, Violation

ENGINES: tuple[EngineName, ...] = ("sqlite", "postgresql", "mariadb", "duckdb")

_COLUMN = "c"
_LONGEST = 800
"""Longer texts fit no URI."""
_VAGUE = ("cannot answer", "does not fit where", "database refuses", "compute this summary\n")
"""Words of refusals that do not say why."""

Tags: TypeAlias = frozenset[int]


@dataclass(frozen=True)
class Case:
    """Relations of one column each, beside the tag."""

    schema: Schema


@st.composite
def cases(draw: st.DrawFn, types: str = "") -> Case:
    """Return columns of some types of an engine, each with some of the values at its edges.

    With `types`, only of those that it is a part of.
    """
    engine = draw(st.sampled_from(ENGINES))
    every = [kind for kind in TYPES[engine] if types in kind.type.lower()]
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=4))
    relations: list[Relation] = []
    for place, kind in enumerate(chosen):
        literals = [each for each in kind.literals if each != LONG[engine]]
        drawn = draw(st.lists(st.sampled_from(literals), min_size=2, max_size=8, unique=True))
        null = draw(st.sampled_from(("", "", " NOT NULL", " PRIMARY KEY")))
        labels = draw(st.lists(st.sampled_from(LABELS), min_size=2, max_size=6, unique=True))
        written = ", ".join(literal(engine, label) for label in labels)
        if "{labels}" in kind.type:
            drawn += draw(st.permutations([literal(engine, label) for label in labels]))
        if not null:
            drawn.append("NULL")
        relations.append(
            _relation(engine, f"t{place}", kind.type.replace("{labels}", written), drawn, null)
        )
    return Case(Schema(engine, tuple(relations)))


def _relation(
    engine: EngineName, name: str, type: str, literals: Sequence[str], null: str = ""
) -> Relation:
    table = quoted(engine, name)
    create = [f"CREATE TABLE {table} ({TAG} integer NOT NULL, {_COLUMN} {type}{null})"]
    if engine == "postgresql":
        labels = ", ".join(literal(engine, label) for label in LABELS)
        for made, statement in POSTGRES_SETUP.items():
            if f'"{made}"' in create[-1]:
                needed = [
                    each for each in POSTGRES_SETUP if f'"{each}"' in statement and each != made
                ]
                create[:0] = [
                    f"DO $$ BEGIN {POSTGRES_SETUP[each].format(labels=labels)};"
                    " EXCEPTION WHEN duplicate_object THEN NULL; END $$"
                    for each in (*needed, made)
                ]
    return Relation(name, tuple(create), (_COLUMN,), tuple((each,) for each in literals), (name,))


async def check(case: Case, tally: Tally) -> None:
    """Serve the columns, and take every shown value.

    Raises:
        Violation: a shown value is not taken, or means another one.
    """
    engine = case.schema.engine
    try:
        database = await shared_database(engine)
    except NoServer:
        tally.count(f"cases without {engine}")
        return
    tally.count(f"cases of {engine}")
    built = await database.build(case.schema)
    truths = {relation.name: await _truth(database, engine, relation.name) for relation in built}
    if engine == "duckdb":
        await database.owner.close()  # which releases the file
    provider = Database(url=database.url, watch="off", limits=ReadLimits(timeout=Duration(20)))
    catalog = Catalog([mounted(provider)])
    try:
        if problems := await catalog.start():
            raise Violation(f"the database is not served: {problems}")
        for relation in built:
            table = f"{BASE}{_NAMESPACES.get(engine, '')}{relation.name}"
            reader = _Column(catalog, tally, table, truths[relation.name], engine == "sqlite")
            try:
                await reader.check()
            except DeadlineExceeded:
                tally.count("given up: the machine is busy")
            except Exception as error:
                is_told = isinstance(error, Violation)
                said = str(error) if is_told else repr(error)
                raise Violation(f"{relation.create[-1]}: {said}") from (None if is_told else error)
            tally.count("columns")
    finally:
        await catalog.__aexit__(None, None, None)


_NAMESPACES: Mapping[EngineName, str] = {"postgresql": "public/", "duckdb": "main/"}


@dataclass(frozen=True)
class _Truth:
    """What the engine says of the rows of a column, by their tags."""

    tags: Tags
    null: Tags
    equal: Mapping[int, Tags] | None
    """The rows that are equal to a row; None for a type without `=`."""
    order: tuple[int, ...] | None
    """The rows in the order of the column; None for a type without an order."""
    least: Tags | None
    """The rows that are equal to the `min`; None for a type without it."""
    greatest: Tags | None
    sums: Mapping[str, float | None]
    """The `sum` and `avg`, of types that have them."""


async def _truth(database: LiveDatabase, engine: EngineName, table: str) -> _Truth:
    name = quoted(engine, table)

    async def asked(sql: str) -> list[tuple[Any, ...]] | None:
        try:
            return await database.rows(sql)
        except Exception:
            return None

    # MariaDB finds the date 0000-00-00 of a column without NULL by `IS NULL`.
    # PostgreSQL finds a composite of nothing but NULL.
    null = "{} <=> NULL" if engine == "mariadb" else "{} IS NOT DISTINCT FROM NULL"
    rows = await database.rows(f"SELECT {TAG}, {null.format(_COLUMN)} FROM {name}")  # noqa: S608
    tags = frozenset(int(tag) for tag, _ in rows)
    missing = frozenset(int(tag) for tag, is_null in rows if is_null)
    pairs = await asked(
        f"SELECT a.{TAG}, b.{TAG} FROM {name} a JOIN {name} b ON a.{_COLUMN} = b.{_COLUMN}"  # noqa: S608
    )
    equal = (
        None
        if pairs is None
        else {tag: frozenset(int(b) for a, b in pairs if int(a) == tag) for tag in tags - missing}
    )
    ordered = await asked(f"SELECT {TAG} FROM {name} ORDER BY {_COLUMN}, {TAG}")  # noqa: S608
    order = (
        None
        if ordered is None
        else tuple(int(tag) for (tag,) in ordered if int(tag) not in missing)
    )

    async def extreme(function: str) -> Tags | None:
        found = await asked(
            f"SELECT {TAG} FROM {name} WHERE {_COLUMN} ="  # noqa: S608
            f" (SELECT {function}({_COLUMN}) FROM {name})"
        )
        return None if found is None else frozenset(int(tag) for (tag,) in found)

    sums: dict[str, float | None] = {}
    for function in ("sum", "avg"):
        found = await asked(f"SELECT {function}({_COLUMN}) FROM {name}")  # noqa: S608
        if found is not None:
            with suppress(ValueError, TypeError):
                sums[function] = None if found[0][0] is None else float(found[0][0])
    return _Truth(tags, missing, equal, order, await extreme("min"), await extreme("max"), sums)


class _Refused(Exception):
    """The server does not offer this, and says why."""


class _Column:
    """Takes the shown values of one column."""

    def __init__(
        self, catalog: Catalog, tally: Tally, table: str, truth: _Truth, is_loose: bool
    ) -> None:
        self._is_loose = is_loose  # any value in any column
        self._catalog = catalog
        self._tally = tally
        self._table = table
        self._truth = truth

    async def check(self) -> None:
        page = msgspec.json.decode(await self._content("~rows", limit="1000"), type=_Page)
        self._shown = {int(bytes(row[TAG])): bytes(row[_COLUMN]).decode() for row in page.rows}
        if self._shown.keys() != self._truth.tags:
            raise Violation(
                f"the page has the rows {sorted(self._shown)}, not {sorted(self._truth.tags)}"
            )
        details = (await self._catalog.metadata(self._table)).resource.details or {}
        self._key: Sequence[str] = details["table"]["key"]
        schema = await self._read("~schema", format="json")
        kinds = {column["name"]: column["kind"] for column in schema["columns"]}
        self._kind: str = kinds[_COLUMN]
        nulls = frozenset(tag for tag, value in self._shown.items() if value == "null")
        if nulls != self._truth.null:
            raise Violation(
                f"{sorted(nulls)} are shown as null, {sorted(self._truth.null)} are NULL"
            )
        text = await self._content("~rows", limit="1000", format="csv")
        head, *rows = csv.reader(io.StringIO(text, newline=""))
        places = head.index(TAG), head.index(_COLUMN)
        self._csv = {int(row[places[0]]): row[places[1]] for row in rows}
        await self._check_null()
        texts = {tag: _text(value) for tag, value in self._shown.items() if _is_whole(value)}
        self._texts = {tag: text for tag, text in texts.items() if len(text) <= _LONGEST}
        await self._check_comparisons()
        await self._check_sort()
        await self._check_groups()
        await self._check_extremes()
        await self._check_sums()
        await self._check_like()
        await self._check_key()

    # -- requests

    async def _content(self, document: str, **query: str) -> str:
        uri = uris.with_query(f"{self._table}/{document}", query)
        try:
            (item,) = (await self._catalog.read(uri)).items
        except InvalidParameter as error:
            if any(word in f"{error}\n" for word in _VAGUE):
                raise Violation(f"{uri}: {error}") from error
            raise _Refused(f"{uri}: {error}") from error
        except ResourceNotFound as error:
            raise Violation(f"{uri}: not found") from error
        assert item.content is not None
        self._tally.count("requests")
        return str(item.content.data)

    async def _read(self, document: str, **query: str) -> Any:
        return json.loads(await self._content(document, **query))

    async def _cells(self, document: str, column: str, **query: str) -> list[str]:
        """Return the JSON of one column."""
        page = msgspec.json.decode(await self._content(document, **query), type=_Page)
        return [bytes(row[column]).decode() for row in page.rows]

    async def _found(self, operator: str, value: str) -> Tags:
        page = await self._read(
            "~rows", **{f"where.{_COLUMN}{operator}": value}, columns=TAG, limit="1000"
        )
        return frozenset(row[TAG] for row in page["rows"])

    # -- filters

    async def _check_null(self) -> None:
        for written, expected in (
            ("true", self._truth.null),
            ("false", self._truth.tags - self._truth.null),
        ):
            found = await self._found(".null", written)
            if found != expected:
                raise Violation(f"null={written} finds {sorted(found)}, not {sorted(expected)}")

    async def _check_comparisons(self) -> None:
        refused: list[str] = []
        taken = 0
        for tag, text in self._texts.items():
            try:
                equal = await self._check_equal(tag, text)
                taken += 1
            except _Refused as refusal:
                refused.append(str(refusal))
                continue
            await self._check_operators(tag, text, equal)
        if refused and taken:
            raise Violation(f"some shown values are not taken: {refused[0]}")
        if refused and any("is no value of" in each for each in refused):
            raise Violation(f"shown values are not taken: {refused[0]}")
        self._tally.count("columns that are not compared" if refused else "columns compared")

    async def _check_equal(self, tag: int, text: str) -> Tags:
        equal = await self._found("", text)
        shown = (
            await self._found("", self._csv[tag])
            if self._csv[tag] and not self._shown[tag].startswith("{")
            else equal
        )
        for found, given in ((equal, text), (shown, self._csv[tag])):
            if tag not in found:
                raise Violation(f"the shown value {given!r} does not find its row {tag}")
            shown_so = (text, self._csv[tag])
            alike = {each for each, other in self._csv.items() if other in shown_so}
            alike |= {each for each, other in self._texts.items() if other in shown_so}
            alike |= {
                each for each, other in self._texts.items() if _number(other) == _number(text)
            }
            due = frozenset[int]().union(*(self._equal(each) for each in alike))
            if not self._equal(tag) <= found <= due:
                raise Violation(
                    f"the shown value {given!r} finds {sorted(found)}, not {sorted(due)}"
                )
        return equal

    def _equal(self, tag: int) -> Tags:
        if self._truth.equal is None:
            return frozenset((tag,))
        return self._truth.equal.get(tag, frozenset()) | {tag}

    async def _check_operators(self, tag: int, text: str, equal: Tags) -> None:
        found = {
            name: await self._found(f".{name}", text) for name in ("lt", "le", "gt", "ge", "ne")
        }
        held = self._truth.tags - self._truth.null
        listed = await self._found(".in", _listed(text))
        expected = {
            "le": found["lt"] | equal,
            "ge": found["gt"] | equal,
            "ne": held - equal,
        }
        # In SQLite, text may be shown as bytes, and look like a number.
        is_odd = text[:9] == '{"$blob":' or text in ("true", "false") or _number(text) is not None
        # The string of JSON "1" is shown as the number 1 is written.
        is_string = self._kind == "json" and self._shown[tag].startswith('"')
        is_sure = not (self._is_loose and is_odd) and not is_string
        if equal == self._equal(tag) and self._truth.order is not None and is_sure:
            order = self._truth.order
            first = min(order.index(each) for each in equal)
            last = max(order.index(each) for each in equal)
            if last - first == len(equal) - 1:  # not always in MariaDB, with spaces at the end
                expected["lt"] = frozenset(order[:first])
                expected["gt"] = frozenset(order[last + 1 :])
        for name, due in expected.items():
            if found[name] != due:
                raise Violation(f"{name}={text!r} finds {sorted(found[name])}, not {sorted(due)}")
        if listed != equal:
            raise Violation(f"in={text!r} finds {sorted(listed)}, eq {sorted(equal)}")

    async def _check_like(self) -> None:
        try:
            everything = await self._found(".like", "%")
        except _Refused:
            self._tally.count("columns without like")
            return
        # Blobs, which SQLite has in any column, have no text; JSON has the text that was written.
        texts = {
            tag: self._csv[tag]
            if self._kind == "json" or _number(shown) is not None
            else _text(shown)
            for tag, shown in self._shown.items()
            if shown != "null" and not shown.startswith('{"$blob":')
        }
        self._like_texts = texts
        blobs = {tag for tag, shown in self._shown.items() if shown.startswith('{"$blob":')}
        if everything - blobs != texts.keys():
            raise Violation(f"like=% finds {sorted(everything)}")
        for tag, text in texts.items():
            if len(text) > 90 or "\0" in text:
                continue  # no pattern
            found = await self._found(".like", _escaped(text))
            if tag not in found:
                raise Violation(f"like={text!r} does not find its row {tag}")
            begun = await self._found(".like", _escaped(text[:2]) + "%")
            if tag not in begun:
                raise Violation(f"like={text[:2]!r}% finds {sorted(begun)}, not {tag}")
            others = [each for each in begun if not self._begins(each, text[:2])]
            if text[:2].isascii() and others:
                raise Violation(f"like={text[:2]!r}% finds {others}")

    def _has_written(self, shown: str) -> bool:
        """Return whether JSON may have another spelling than CSV: `1e16`, `1e+16`."""
        return self._kind == "json" or _number(shown) is not None

    def _begins(self, tag: int, start: str) -> bool:
        text = self._like_texts.get(tag, "\ufffd")
        return not text.isascii() or text.lower().startswith(start.lower())

    # -- orders and groups

    async def _check_sort(self) -> None:
        for sign in ("", "-"):
            for limit in (1, 3):
                try:
                    page = await self._read("~rows", sort=f"{sign}{_COLUMN}", limit=str(limit))
                except _Refused:
                    self._tally.count("columns not sorted")
                    return
                found = [row[TAG] for row in page["rows"]]
                while page["next"] is not None and len(found) <= len(self._shown):
                    query = dict(uris.parse(page["next"]).query)
                    page = await self._read("~rows", **query)
                    found += [row[TAG] for row in page["rows"]]
                if page["more"] or Counter(found) != Counter(self._shown.keys()):
                    raise Violation(
                        f"sort={sign}{_COLUMN}, pages of {limit}: {found}, {page['more']=}"
                    )
                self._check_order(found, is_descending=bool(sign))

    def _check_order(self, found: Sequence[int], *, is_descending: bool) -> None:
        held = [tag for tag in found if tag not in self._truth.null]
        if is_descending:
            held.reverse()
        if self._truth.order is None:
            return
        classes = [[self._equal(tag) for tag in order] for order in (held, self._truth.order)]
        if classes[0] != classes[1]:
            raise Violation(f"sorted: {held}, the engine: {self._truth.order}")

    async def _check_groups(self) -> None:
        try:
            page = await self._read("~summary", by=_COLUMN, limit="1000")
        except _Refused:
            self._tally.count("columns not grouped")
            return
        counts = [row["count"] for row in page["rows"]]
        if sum(counts) != len(self._shown):
            raise Violation(f"groups of {counts} rows are not the {len(self._shown)} rows")
        for value in await self._cells("~summary", _COLUMN, by=_COLUMN, limit="1000"):
            if value not in self._shown.values():
                raise Violation(f"the group {value} is no shown value: {self._shown}")
        if self._truth.equal is not None:
            classes = {
                self._truth.equal.get(tag, frozenset()) | {tag}
                for tag in self._truth.tags - self._truth.null
            }
            due = sorted(map(len, {frozenset(each) for each in classes}))
            if self._truth.null:
                due.append(len(self._truth.null))
            if sorted(counts) != sorted(due):
                raise Violation(
                    f"groups of {sorted(counts)} rows, not of {sorted(due)}: {page['rows']}"
                )

    async def _check_extremes(self) -> None:
        for function, truth in (("min", self._truth.least), ("max", self._truth.greatest)):
            try:
                name = f"{function}.{_COLUMN}"
                (value,) = await self._cells("~summary", name, **{function: _COLUMN})
            except _Refused:
                self._tally.count(f"columns without {function}")
                continue
            if value == "null":
                if self._truth.tags != self._truth.null:
                    raise Violation(f"{function} is null")
                continue
            alike = {tag for tag, shown in self._shown.items() if shown == value}
            if not alike and _is_whole(value):
                raise Violation(f"{function} is {value}, which no row shows")
            if truth is not None and not alike & truth and _is_whole(value):
                raise Violation(f"{function} is {value} of {sorted(alike)}, not of {sorted(truth)}")

    async def _check_sums(self) -> None:
        for function in ("sum", "avg"):
            try:
                name = f"{function}.{_COLUMN}"
                (value,) = await self._cells("~summary", name, **{function: _COLUMN})
            except _Refused:
                self._tally.count(f"columns without {function}")
                continue
            due = self._truth.sums.get(function, math.nan)
            found = None if value == "null" else _number(_text(value))
            if found is None or due is None:
                if found is not due:
                    raise Violation(f"{function} is {value}, not {due}")
            elif not (math.isclose(found, due, rel_tol=1e-6) or math.isnan(found + due)):
                raise Violation(f"{function} is {value}, not {due}")

    # -- keys

    async def _check_key(self) -> None:
        if list(self._key) != [_COLUMN]:
            return
        self._tally.count("keys")
        for tag, text in self._texts.items():
            if self._shown[tag].startswith("{") or not text:
                continue
            if self._is_loose and (_number(text) is not None or text in ("true", "false")):
                continue  # an address has one value: the number, before the text like it
            uri = f"{self._table}/{uris.quote_segment(text)}"
            if text in (".", "..") or text.startswith("~") or "/" in text or "\0" in text:
                continue  # segments of a URI that mean something else
            try:
                (item,) = (await self._catalog.read(uri)).items
            except (ResourceNotFound, InvalidParameter) as error:
                raise Violation(f"the shown key {text!r} addresses no row ({error!r})") from error
            assert item.content is not None
            found = json.loads(item.content.data)[TAG]
            alike = {each for each, other in self._texts.items() if other == text}
            if (number := _number(text)) is not None:  # as above: of JSON, 1.0 before the text "1"
                alike |= {each for each, other in self._texts.items() if _number(other) == number}
            if found not in self._equal(tag) | alike | self._alike_in_csv(text):
                raise Violation(f"the shown key {text!r} addresses the row {found}, not {tag}")

    def _alike_in_csv(self, text: str) -> set[int]:
        return {tag for tag, other in self._csv.items() if other == text}


class _Page(msgspec.Struct):
    rows: list[dict[str, msgspec.Raw]]


def _is_whole(shown: str) -> bool:
    return shown != "null" and '"truncated":true' not in shown


def _text(shown: str) -> str:
    """Return the JSON of a shown value as a URI parameter has it."""
    return str(json.loads(shown)) if shown.startswith('"') else shown


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _listed(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _escaped(text: str) -> str:
    return "".join(f"\\{each}" if each in "\\%_" else each for each in text)


# -- sabotages


@contextmanager
def _patched(owner: object, name: str, replacement: object) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        yield


def _exclusive(self: Statements, filter: selection.Filter, prefix: str) -> Any:
    """Compare by `lt` where `le` is asked for."""
    operator = {"le": "lt"}.get(filter.operator, filter.operator)
    return _filter(self, filter._replace(operator=operator), prefix)


def _numbers_of_python(self: key_types.Reals, text: str) -> object:
    return self.parse("", text)


def _never(_: str) -> bool:
    return False


_filter = Statements._filter  # pyright: ignore[reportPrivateUsage]

PROPERTY = Property(
    name="spelling",
    cases=cases(),
    check=check,
    sabotages={
        # `le` leaves out the rows that are equal.
        "le": partial(_patched, Statements, "_filter", _exclusive),
        # Infinity and NaN are shown, and not taken.
        "infinity": partial(_patched, key_types.Reals, "shown", _numbers_of_python),
        # A JSON text `null` is shown as NULL.
        "json null": partial(_patched, values, "_is_ambiguous", _never),
    },
    sabotaged={"json null": cases("json"), "infinity": cases("double")},
)
