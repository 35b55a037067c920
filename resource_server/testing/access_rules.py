"""Rules of `restrictions` and `narrowed`, and of `claims` and `with_claims`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from inspect import getattr_static
from typing import TypeAlias

from resource_server.access import MAX_SCOPES
from resource_server.errors import ResourceNotFound
from resource_server.provider import Provider
from resource_server.testing.listing_rules import ListedTree
from resource_server.testing.provider_calls import Calls, brief

Restrictions: TypeAlias = Mapping[str, frozenset[str]]
Enter: TypeAlias = Callable[[Calls], AbstractAsyncContextManager[ListedTree]]
"""Enters a provider, checks all other rules, and yields its resources."""

_MAX_ABSENT = 100


async def known_restrictions(calls: Calls) -> Restrictions:
    """Return the restrictions of a provider, entered or not; none on failure."""
    # `isinstance` would read the property, which may raise.
    if getattr_static(calls.provider, "restrictions", None) is None:
        return {}
    return await calls.call("restrictions") or {}


async def check_narrowed(
    calls: Calls, before: Restrictions, whole: ListedTree, enter: Enter
) -> None:
    """Narrow the provider to no scope, to each scope and to all; compare with the whole provider.

    `before` are the restrictions before the provider was entered.
    """
    if not hasattr(calls.provider, "narrowed"):
        return
    now = await known_restrictions(calls)
    if now != before:
        rule = "restrictions do not change"
        calls.broken(rule, f"they were {brief(before)}, then {brief(now)}")
    every = frozenset[str]().union(*before.values())
    if len(every) > MAX_SCOPES:
        rule = f"restrictions name at most {MAX_SCOPES} different scopes"
        calls.broken(rule, f"there are {len(every)}")
    # Without restrictions, or with too many scopes, the server never narrows a provider.
    choices = {frozenset[str](), *(frozenset((scope,)) for scope in every), every}
    for scopes in sorted(choices, key=sorted) if 0 < len(every) <= MAX_SCOPES else ():
        held = f"with {_list(scopes) or 'no scope'}"
        narrowed: Provider | None = await calls.call("narrowed", scopes)
        if narrowed is calls.provider:
            rule = "narrowed returns a new provider, which is entered and left on its own"
            calls.broken(rule, f"{held}, it returns the same one")
        elif narrowed is not None:
            seen = Calls(narrowed)
            async with enter(seen) as part:
                for sentence in seen.violations():
                    calls.broken("the narrowed provider keeps the contract", f"{held}, {sentence}")
                if whole.whole:
                    await _compare(calls, seen, held, whole, part, lacking=every - scopes)


async def known_claims(calls: Calls) -> frozenset[str]:
    """Return the claims that a provider uses, entered or not; none on failure."""
    if getattr_static(calls.provider, "claims", None) is None:
        return frozenset()
    return frozenset(await calls.call("claims") or ())


async def check_claims(calls: Calls, before: frozenset[str], enter: Enter) -> None:
    """Give the provider values of its claims, or none; each result keeps the contract.

    `before` are the claims before the provider was entered.
    """
    if not before or not hasattr(calls.provider, "with_claims"):
        return
    if (now := await known_claims(calls)) != before:
        calls.broken("claims do not change", f"they were {brief(before)}, then {brief(now)}")
    empty: list[str] = []
    for value in (None, "somebody", empty, 7):
        held = f"with {brief(value)} for each claim"
        part: Provider | None = await calls.call("with_claims", dict.fromkeys(before, value))
        if part is calls.provider:
            rule = "with_claims returns a new provider, which is entered and left on its own"
            calls.broken(rule, f"{held}, it returns the same one")
        elif part is not None:
            seen = Calls(part)
            async with enter(seen):
                for sentence in seen.violations():
                    rule = "the provider with claims keeps the contract"
                    calls.broken(rule, f"{held}, {sentence}")


async def _compare(
    calls: Calls,
    seen: Calls,
    held: str,
    whole: ListedTree,
    part: ListedTree,
    *,
    lacking: frozenset[str],
) -> None:
    there_are, has = _things(calls, whole), _things(seen, part)
    for more in sorted(has - there_are):
        rule = "the narrowed provider has nothing that the whole provider lacks"
        calls.broken(rule, f"{held}, there is also {more}")
    if not lacking:
        for less in sorted(there_are - has):
            calls.broken("narrowing to all scopes hides nothing", f"{held}, {less} is missing")
    elif there_are == has:
        rule = "resources that require scopes are hidden without them"
        calls.broken(
            rule, f"{held}, nothing is hidden; add something that requires {_list(lacking)}"
        )
    shown = {resource.path for resource in part.resources}
    absent = [resource.path for resource in whole.resources if resource.path not in shown]
    for path in absent[:_MAX_ABSENT]:
        for method in (seen.metadata, seen.read):
            found = await method(path)
            if found is not None and not isinstance(found, ResourceNotFound):
                rule = "a path that the narrowed provider does not list raises ResourceNotFound"
                calls.broken(rule, f"{held}, {method.__name__}({brief(path)}) gave {brief(found)}")


def _things(calls: Calls, tree: ListedTree) -> set[str]:
    """Return descriptions of the resources and templates that clients can list."""
    resources = {f"resource {resource.path!r}" for resource in tree.resources}
    return resources | {f"template {each.uri_template!r}" for each in calls.provider.templates}


def _list(scopes: frozenset[str]) -> str:
    return ", ".join(sorted(scopes))
