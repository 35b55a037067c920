"""Snapshots by themselves: the differences that they show, and those that they do not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from resource_server.catalog.catalog import CatalogLimits
from resource_server.catalog.mount import Mount
from resource_server.errors import InvalidParameter, ResourceBusy
from resource_server.provider import Content, MaybeAwaitable, Path, Resource, Truncation
from resource_server.subscriptions.snapshot import (
    ABSENT,
    INDISTINCT,
    NOTHING,
    DocumentState,
    Snapshot,
    digest_children,
    digest_content,
    snapshot_at,
    snapshot_of_query,
    state_of,
)
from tests.cases import for_each
from tests.providers_for_tests import Tree

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 7, 28, 12, tzinfo=UTC)


class Described(Tree):
    """A tree with metadata that the test gives for some paths."""

    def __init__(self, *resources: Resource) -> None:
        super().__init__({"a": "1", "b": {"c": "2"}})
        self.resources = {resource.path: resource for resource in resources}
        self.error: Exception | None = None

    def metadata(self, path: Path) -> MaybeAwaitable[Resource]:
        if self.error is not None:
            raise self.error
        return self.resources.get(path) or super().metadata(path)


async def at(provider: Tree, path: Path, query: Mapping[str, str] | None = None) -> Snapshot:
    mount = Mount("one", "test://one/", provider)
    try:
        return await snapshot_at(mount, path, CatalogLimits(), query)
    finally:
        await mount.close()


@for_each(
    ("resource", "state"),
    [
        (Resource(path=("a",), name="a", version="1"), DocumentState("1")),
        (Resource(path=("a",), name="a", version="1", size=2), DocumentState("1")),
        (Resource(path=("a",), name="a", size=2), DocumentState(None, 2)),
        (
            Resource(path=("a",), name="a", size=2, last_modified=NOON),
            DocumentState(None, 2, NOON),
        ),
        (Resource(path=("a",), name="other title"), INDISTINCT),
    ],
)
def test_the_state_is_the_version_or_else_size_and_time(
    resource: Resource, state: DocumentState
) -> None:
    assert state_of(resource) == state


async def test_a_document_has_the_same_state_for_subscribers_and_readers() -> None:
    found = await at(Described(Resource(path=("a",), name="a", version="7")), ("a",))
    assert found == Snapshot(DocumentState("7"), DocumentState("7"))


@for_each("path", [("absent",), ("a", "below")])
async def test_an_absent_resource_is_a_snapshot_as_well(path: Path) -> None:
    assert await at(Described(), path) == NOTHING


async def test_an_unreadable_document_is_absent() -> None:
    hidden = Resource(path=("a",), name="a", version="7", readable=False)
    assert await at(Described(hidden), ("a",)) == NOTHING


async def test_a_failure_is_not_a_snapshot() -> None:
    provider = Described()
    provider.error = ResourceBusy()
    with pytest.raises(ResourceBusy):
        await at(provider, ("a",))


async def test_parameters_that_a_document_does_not_take_are_absent() -> None:
    assert await at(Described(), ("a",), {"unknown": "1"}) == NOTHING


async def test_a_collection_takes_no_parameters() -> None:
    mount = Mount("one", "test://one/", Tree({"b": {}}))
    with pytest.raises(InvalidParameter):
        await snapshot_of_query(mount, ("b",), {})
    await mount.close()


def child(name: str, **fields: str) -> Resource:
    return Resource(path=(name,), name=name, **fields)  # pyright: ignore[reportArgumentType]


def test_children_differ_by_name_type_and_state_of_documents() -> None:
    children = [child("a", version="1"), child("b", type="collection", version="1")]
    same = digest_children(children)
    assert digest_children(list(children)) == same
    assert digest_children(children[:1]) != same
    assert digest_children([child("a", version="2"), children[1]]) != same
    assert digest_children([children[0], child("b", version="1")]) != same
    # What is below a child collection is compared for its own subscribers.
    other = child("b", type="collection", version="2")
    assert digest_children([children[0], other]) == same
    assert digest_children([child("a", version="1", title="New"), other]) == same


def test_contents_differ_by_body_type_and_truncation() -> None:
    contents = [
        Content("1"),
        Content(b"1"),  # its hash is that of the text
        Content("2"),
        Content("1", "text/csv"),
        Content("1", truncated=Truncation(reason="limit", unit="bytes")),
    ]
    assert len({digest_content(content) for content in contents}) == len(contents)
    assert digest_content(Content("1")) == digest_content(contents[0])


def test_absent_and_indistinct_are_two_states() -> None:
    assert ABSENT != INDISTINCT
