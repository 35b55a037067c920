"""Test tools for plugin authors: `check_provider` and `check_converter` check the contracts.

    @pytest.mark.anyio
    async def test_greetings_keep_the_contract() -> None:
        await check_provider(Greetings(names=["ada", "alan"]))

The instance should contain nested collections, documents (one of them empty) and names beyond
ASCII, and must not change during the check. All broken rules are reported together.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path as FilePath
from typing import Any, cast

import anyio

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.contract_guard import incomplete_abilities
from resource_server.catalog.mount import Mount
from resource_server.protocol.in_process_client import ErrorReply, LocalClient
from resource_server.protocol.server import Server
from resource_server.provider import Path, Provider, Resource, SupportsMount
from resource_server.runtime.server_key import process_key
from resource_server.testing import (
    access_rules,
    change_rules,
    listing_rules,
    resource_rules,
    tool_rules,
)
from resource_server.testing.change_rules import MakeChange
from resource_server.testing.converter_rules import CheckedConverter
from resource_server.testing.provider_calls import Calls, brief, is_below

__all__ = [
    "ConverterViolations",
    "ErrorReply",
    "LocalClient",
    "ProviderViolations",
    "check_converter",
    "check_provider",
    "client",
]


class _Violations(AssertionError):
    """Broken rules of a contract; `violations` has a sentence for each rule and place."""

    subject = ""

    def __init__(self, violations: Sequence[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("\n".join((f"the {self.subject} breaks its contract", *self.violations)))


class ProviderViolations(_Violations):
    """A provider breaks its contract."""

    subject = "provider"


class ConverterViolations(_Violations):
    """A converter breaks its contract."""

    subject = "converter"


def check_converter(
    reference: str,
    documents: Mapping[str, bytes],
    *,
    media_type: str,
    format: str = "markdown",
    in_parts: bool = True,
    modules: Sequence[str | FilePath] = (),
) -> None:
    """Convert documents as the server does, whole, in parts and damaged, and compare the results.

    The converter runs in a confined worker: what needs a file, the network or much memory fails
    here as it would there.

    Args:
        reference: the function, as `module:name`, as in the entry point.
        documents: at least one document, by a name for messages.
        media_type: that of the documents.
        format: the format asked for.
        in_parts: whether some parts can be asked for, such as pages.
        modules: folders of modules that are not installed, such as the tests' own.

    Raises:
        ConverterViolations: rules are broken; the error names all of them.
    """
    converter = CheckedConverter(reference, media_type, format, modules)
    try:
        for name, document in documents.items():
            converter.check(name, document, in_parts=in_parts)
        converter.check_empty()
    finally:
        converter.close()
    if converter.violations:
        raise ConverterViolations(converter.violations)


async def check_provider(
    provider: Provider,
    *,
    max_resources: int = 1000,
    unreadable: Collection[Path] = (),
    make_change: MakeChange | None = None,
    within_s: float = 10.0,
) -> None:
    """Call every method of `provider` as the server might, and compare the results.

    At most `max_resources` resources are checked, depth first. Documents at or below the paths in
    `unreadable` are listed but never readable. A provider with a lifetime is entered, checked,
    left, and entered again. A provider with `restrictions` is narrowed to no scope, to each scope
    and to all scopes, and one with `claims` gets some values of them; each result is checked too.

    A provider with `changes` must yield a `Change` within `within_s` seconds for each path added
    to an interest, and for the change that `make_change` makes at the end. That function changes,
    removes or adds one of the checked documents, and returns its path.

    Raises:
        ProviderViolations: rules are broken; the error names all of them.
        MountUnavailable: the provider is unavailable now.
    """
    calls = Calls(provider)
    for each in incomplete_abilities(provider):
        calls.broken("an ability has all of its methods", each)
    restrictions = await access_rules.known_restrictions(calls)
    claims = await access_rules.known_claims(calls)
    _mount(calls)
    offered = await tool_rules.known_tools(calls)
    async with AsyncExitStack() as lifetime:
        lasting = await _enter(calls, lifetime)
        tree, watched = await _check_rules(calls, max_resources, unreadable, within_s)

        @asynccontextmanager
        async def entered(narrowed: Calls) -> AsyncGenerator[listing_rules.ListedTree]:
            async with AsyncExitStack() as lifetime:
                await _enter(narrowed, lifetime)
                yield (await _check_rules(narrowed, max_resources, unreadable, within_s))[0]

        await tool_rules.check_tools(calls, offered)
        await access_rules.check_narrowed(calls, restrictions, tree, entered)
        await access_rules.check_claims(calls, claims, entered)
        if watched and not lasting:
            await change_rules.check_change(calls, tree.resources, make_change, within_s)
    if lasting:
        async with AsyncExitStack() as lifetime:
            await _enter(calls, lifetime)
            rule = "a provider can be entered again"
            await listing_rules.check_same(calls, tree, rule)
            if watched:
                await change_rules.check_change(calls, tree.resources, make_change, within_s, rule)
    if violations := calls.violations():
        raise ProviderViolations(violations)


@asynccontextmanager
async def client(
    provider: Provider,
    *,
    base: str = "test://mount/",
    revision: str = "2025-11-25",
    on_notification: Callable[[dict[str, Any]], None] | None = None,
) -> AsyncGenerator[LocalClient]:
    """Serve `provider` in this process, below the URI `base`, and yield a client connected to it.

    `await client.request("resources/read", {"uri": "test://mount/ada"})` returns the result as a
    client receives it, and raises `ErrorReply` for an error response. `on_notification` gets each
    notification as a client receives it, changes of the listing included.
    """
    catalog = Catalog([Mount("mount", base, provider)])
    async with Server(catalog) as server:
        connected = LocalClient(
            server,
            revision,
            on_notification=on_notification,
            follows_list=on_notification is not None,
        )
        async with connected:
            yield connected


async def _check_rules(
    calls: Calls, max_resources: int, unreadable: Collection[Path], within_s: float
) -> tuple[listing_rules.ListedTree, bool]:
    """Check the rules of a provider at rest; return its resources, and whether watching works."""
    tree = listing_rules.ListedTree(calls, max_resources)
    await tree.explore()
    await listing_rules.check_level(calls, tree)
    resource_rules.check_templates(calls)
    for resource in tree.resources:
        await resource_rules.check_resource(calls, resource)
        if resource.type == "document":
            readable = not is_below(resource.path, unreadable)
            await resource_rules.check_document(calls, resource, readable=readable)
    await resource_rules.check_absent(calls, tree.resources)
    await resource_rules.check_completion(calls)
    await resource_rules.check_fetch(calls, tree.resources)
    await resource_rules.check_operator(calls, tree.resources)
    await listing_rules.check_search(calls, tree.resources)
    await resource_rules.check_skills(calls)
    await _check_concurrency(calls, tree.resources[:8])
    return tree, await change_rules.check_watch(calls, tree.resources, within_s)


def _mount(calls: Calls) -> None:
    if isinstance(calls.provider, SupportsMount):
        calls.provider.mounted(_link, process_key())


async def _enter(calls: Calls, lifetime: AsyncExitStack) -> bool:
    """Enter the provider's lifetime, if any; return whether there is one."""
    _mount(calls)
    provider = cast("object", calls.provider)
    if isinstance(provider, AbstractAsyncContextManager):
        await lifetime.enter_async_context(
            cast("AbstractAsyncContextManager[Any, bool | None]", provider)
        )
        return True
    if hasattr(provider, "__aenter__") or hasattr(provider, "__aexit__"):
        calls.broken(
            "an async context manager has both __aenter__ and __aexit__", "one of them is missing"
        )
    return False


def _link(path: Path, query: Mapping[str, str] | None = None) -> str:
    uri = uris.join("check://mount/", path)
    return uris.with_query(uri, query) if query else uri


async def _check_concurrency(calls: Calls, some: Sequence[Resource]) -> None:
    at_once: dict[Path, object] = {}

    async def describe(path: Path) -> None:
        at_once[path] = await calls.metadata(path)

    async with anyio.create_task_group() as tasks:
        for resource in some:
            tasks.start_soon(describe, resource.path)
            if resource.type == "document":
                tasks.start_soon(calls.read, resource.path)
    for path, found in at_once.items():
        if isinstance(found, Resource) and found == await calls.metadata(path):
            continue
        calls.broken(
            "methods can run concurrently", f"a concurrent metadata({brief(path)}) gave {found!r}"
        )
