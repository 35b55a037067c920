"""`resource-server check`: whether everything can be served, what each mount offers, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import click
import msgspec

from resource_server import media_types, plugins, uris
from resource_server.catalog import Catalog, Limits
from resource_server.cli import arguments, loop, messages, output, runtime
from resource_server.eager import settle
from resource_server.errors import ResourceBusy, ResourceError, ResourceNotFound
from resource_server.manifest import Manifest
from resource_server.mount import Mount
from resource_server.provider import MaybeAwaitable, Path

_MOST_COUNTED = 10_000
_MOST_HIDDEN = 10_000
_MOST_RULES = 20
_EXAMPLES = 3


@runtime_checkable
class SupportsHidden(Protocol):
    """Tells the operator what a provider has and does not show. Never sent to clients."""

    def hidden(self, *, limit: int) -> MaybeAwaitable[Sequence[tuple[Path, str]]]:
        """Return up to `limit` hidden paths, each with the rule that hides it.

        What lies below a hidden collection is not named again.
        """
        ...


class Hidden(msgspec.Struct, frozen=True):
    """How much a rule hides, and some of it."""

    rule: str
    count: int
    examples: Sequence[str]


class Report(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What one mount offers; with a `problem` the rest may be missing."""

    name: str
    uri: str
    provider: str
    problem: str | None = None
    listed: bool = True
    abilities: Sequence[str] = ()
    templates: Sequence[str] = ()
    resources: int | None = None
    """In the global listing, counted up to a bound."""
    more: bool = False
    """There are more than were counted."""
    hidden: Sequence[Hidden] = ()
    """By rule, the one that hides most first; what lies below a hidden collection is not counted."""


@click.command("check", short_help="Report what is offered, hidden or wrong.")
@click.argument("source", required=False)
@click.option(
    "--explain", "explained", multiple=True, metavar="URI", help="Say why URI is shown or not."
)
@arguments.as_json
@arguments.shared
def command(
    source: str | None, explained: Sequence[str], as_json: bool, no_plugins: bool, verbose: int
) -> int:
    """Open everything that SOURCE names and report what it offers.

    Exit status 1: a mount cannot be served; 2: the manifest is wrong.
    """
    messages.log_to_stderr(verbose)
    manifest = runtime.find(source, allow_plugins=not no_plugins, strict=True)
    catalog = runtime.build(manifest, allow_plugins=not no_plugins).catalog
    if explained:
        return loop.run(_explain(catalog, explained, as_json=as_json))
    return loop.run(_check(catalog, manifest, as_json=as_json))


# -- what each mount offers


async def _check(catalog: Catalog, manifest: Manifest, *, as_json: bool) -> int:
    async with catalog:
        await catalog.start()
        providers = [
            spec.use if isinstance(spec.use, str) else "filesystem" for spec in manifest.mounts
        ]
        reports = [
            await _report(mount, provider)
            for mount, provider in zip(catalog.mounts, providers, strict=True)
        ]
    if as_json:
        output.indented_json({"mounts": reports, "libmagic": media_types.magic_problem() or "ok"})
    else:
        for report in reports:
            _print(report)
        if (problem := media_types.magic_problem()) is not None:
            messages.note(problem)
    return 1 if any(report.problem for report in reports) else 0


async def _report(mount: Mount, provider: str) -> Report:
    report = Report(name=mount.name, uri=mount.base, provider=provider, listed=mount.listed)
    report.problem = mount.problem
    if mount.problem is None:
        report.abilities = plugins.abilities(mount.provider)
        report.templates = [mount.base + each.uri_template for each in mount.provider.templates]
        await _count(mount, report)
        report.hidden = await _hidden(mount)
    return report


async def _count(mount: Mount, report: Report) -> None:
    alone = Catalog([mount], Limits(page_size=1000))
    report.resources = 0
    after: str | None = None
    while report.resources < _MOST_COUNTED:
        page = await alone.list(after=after)
        report.resources += len(page.entries)
        if page.unavailable:
            report.problem = "its resources cannot be listed; -v says why"
        after = page.next_cursor
        if after is None:
            return
    report.more = True


async def _hidden(mount: Mount) -> list[Hidden]:
    if not isinstance(mount.provider, SupportsHidden):
        return []
    by_rule: dict[str, list[Path]] = {}
    for path, rule in await settle(mount.provider.hidden(limit=_MOST_HIDDEN)):
        by_rule.setdefault(rule, []).append(path)
    found = [
        Hidden(rule, len(paths), [uris.display("/".join(path)) for path in paths[:_EXAMPLES]])
        for rule, paths in by_rule.items()
    ]
    return sorted(found, key=lambda each: -each.count)


def _print(report: Report) -> None:
    output.line(f"{output.emphasised(report.name)}  {messages.shown(report.uri)}")
    output.fields(("  " + name, value) for name, value in _facts(report))


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    yield "provider", report.provider
    yield "problem", report.problem or ""
    yield "offers", ", ".join(report.abilities)
    if report.resources is not None and report.listed:
        yield "resources", f"{report.resources:,}{'+' if report.more else ''}"
    if not report.listed:
        yield "listed", "no, only readable by URI"
    for template in report.templates:
        yield "template", template
    for each in report.hidden[:_MOST_RULES]:
        more = ", …" if each.count > len(each.examples) else ""
        yield "hidden", f"{each.count:,} by {each.rule}: {', '.join(each.examples)}{more}"
    if (rest := len(report.hidden) - _MOST_RULES) > 0:
        yield "hidden", f"and what {rest:,} other rules hide"


# -- why one resource is shown or not


async def _explain(catalog: Catalog, asked: Sequence[str], *, as_json: bool) -> int:
    status = 0
    async with catalog:
        for uri in asked:
            try:
                text = await _explanation(catalog, uri)
            except ResourceNotFound:
                text, status = "no mount has this URI", 1
            except ResourceBusy:
                text, status = "its mount cannot serve now", 1
            if as_json:
                output.json({"uri": uri, "explanation": text})
            else:
                output.line(messages.shown(f"{uri}: {text}"))
    return status


async def _explanation(catalog: Catalog, uri: str) -> str:
    """Return one sentence on a URI, whether or not clients may see it."""
    mount, path, _ = await catalog.locate(uri)
    if mount.explains is not None:
        return await settle(mount.explains.explain(path))
    try:
        await settle(mount.provider.metadata(path))
    except ResourceError as error:
        return f"not shown by {mount.name}: {error}"
    return f"shown by {mount.name}"
