"""Sabotages of non-interference: each leaves out one filter, which generated worlds must notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from resource_server.access import EVERYBODY, acting
from resource_server.catalog.catalog import Catalog
from resource_server.explorer import application
from resource_server.explorer.hidden_page import show_hidden
from resource_server.explorer.page import Page
from resource_server.provider import Change
from resource_server.providers.database.engines.reflection import Table
from resource_server.providers.database.engines.sqlite import policy_connection
from resource_server.providers.database.policy import Policy, TableView
from resource_server.providers.database.reading import statements
from resource_server.providers.database.reading.statements import Statements
from resource_server.providers.filesystem.directory import Directory
from resource_server.providers.filesystem.exposure import rules
from resource_server.providers.filesystem.exposure.rules import DirectoryRules, ExposureRules
from resource_server.providers.filesystem.search_index import index as search_index
from resource_server.providers.filesystem.search_index import known_walk
from resource_server.providers.filesystem.search_index.index import SearchIndex
from resource_server.providers.filesystem.search_index.known_walk import KnownWalk
from resource_server.providers.filesystem.watch import file_watcher
from resource_server.providers.filesystem.watch.demand import prefix_path
from resource_server.providers.filesystem.watch.polling import DirectorySnapshot
from resource_server.providers.filesystem.watch.scanner import DirectoryScanner
from resource_server.runtime.eager import settle


@contextmanager
def _patched(owner: object, name: str, replacement: object) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        yield


_hidden_by = ExposureRules.hidden_by
_search = Catalog.search
_view = Policy.view


def _lenient(
    self: ExposureRules, inside: DirectoryRules, prefix: str, name: str, *, is_directory: bool
) -> str | None:
    """Do as if there were no ignore files; listings decide by another method."""
    plain = msgspec.structs.replace(inside, ignores=())
    return _hidden_by(self, plain, prefix, name, is_directory=is_directory)


async def _unscoped(self: Catalog, query: str, **options: Any) -> Any:
    with acting(EVERYBODY):
        everything = asyncio.ensure_future(_search(self, query, **options))
    return await settle(everything)


def _acting_as_everybody(_: object) -> AbstractContextManager[None]:
    return acting(EVERYBODY)


async def _shown_to_all(page: Page) -> Any:
    return await show_hidden(page._replace(visit=page.visit._replace(is_operator=True)))


def _telling(self: Policy, table: Table, others: Sequence[Table] = ()) -> TableView:
    view = _view(self, table, others)
    view.table = msgspec.structs.replace(view.table, indexes=table.indexes)
    return view


def _unmasked(
    _self: TableView, rows: Sequence[tuple[object, ...]], _columns: Sequence[str]
) -> list[tuple[object, ...]]:
    return list(rows)


def _nothing(*_: object) -> None:
    return None


def _always(*_: object) -> bool:
    return True


def _shown(*_: object) -> Callable[[str, object], object]:
    return lambda _kind, value: value


class _Unconditional(Statements):
    def _without_where(self, select: Callable[[], Any]) -> Any:
        where, self._where = self._where, None
        try:
            return select()
        finally:
            self._where = where


class _CompletesEverything(_Unconditional):
    def prefixes(self, limit: int, **options: Any) -> Any:
        return self._without_where(partial(super().prefixes, limit, **options))


class _CountsEverything(_Unconditional):
    def count(self, most: int | None = None) -> Any:
        return self._without_where(partial(super().count, most))


class _WalksEverything(KnownWalk):
    def __init__(self, _: object, index: SearchIndex) -> None:
        super().__init__(index._tree, index)  # pyright: ignore[reportPrivateUsage]


@contextmanager
def _with_former_rules() -> Generator[None]:
    with (
        _patched(search_index, "IGNORE_FILES", ()),
        _patched(KnownWalk, "_has_rules", _always),
    ):
        yield


class _TellsEverything(DirectoryScanner):
    def _differences(
        self,
        prefix: str,
        before: DirectorySnapshot | None,
        now: DirectorySnapshot,
        directory: Directory,
    ) -> Sequence[Change]:
        found = super()._differences(prefix, before, now, directory)
        return [*found, Change(prefix_path(prefix), "children")]


SABOTAGES: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    # Names that begin with a dot are exposed.
    "dots": lambda: _patched(rules, "_dotted", _nothing),
    # A guessed URI reaches what an ignore file hides.
    "guessed uri": lambda: _patched(ExposureRules, "hidden_by", _lenient),
    # A scan that finds nothing new is reported as a change of the directory.
    "event": lambda: _patched(file_watcher, "DirectoryScanner", _TellsEverything),
    # Search looks into the mounts of every caller.
    "scope of search": lambda: _patched(Catalog, "search", _unscoped),
    # Pages show what any caller sees, or tell every caller what is hidden, as nothing else does.
    "scope of pages": lambda: _patched(application, "acting", _acting_as_everybody),
    "operators": lambda: _patched(application, "show_hidden", _shown_to_all),
    # The index walks the whole folder for every caller, or with the ignore files of before.
    "scope of index": lambda: _patched(known_walk, "KnownWalk", _WalksEverything),
    "rules of index": _with_former_rules,
    # The condition of a table is left out where keys are completed, or rows are counted.
    "where of completion": lambda: _patched(statements, "Statements", _CompletesEverything),
    "where of count": lambda: _patched(statements, "Statements", _CountsEverything),
    # `~schema` has the indexes on hidden columns.
    "hidden column": lambda: _patched(Policy, "view", _telling),
    # Masked values are shown.
    "mask": lambda: _patched(TableView, "mask", _unmasked),
    # The same in SQL of callers and in declared queries, on SQLite.
    "mask in SQL": lambda: _patched(policy_connection, "_masked", _shown),
}
"""Ways to leave out a filter, by the name of what is left out."""
