"""What one mount offers and hides, for the operator."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.mount import FAILURES, Mount, log_failure
from resource_server.cli import console
from resource_server.errors import Diagnostic
from resource_server.manifest import Manifest, MountSpec, Positions
from resource_server.manifest.data import DataPath, dotted
from resource_server.provider import Path, SupportsWarnings
from resource_server.runtime.eager import is_cancelled, settle

_MOST_COUNTED = 10_000
_MOST_RULES = 20
_EXAMPLES = 3


class Hidden(msgspec.Struct, frozen=True):
    """How much a rule hides, and some of it."""

    rule: str
    count: int
    examples: Sequence[str]


class Report(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What one mount offers; with a `problem` the rest may be missing.

    Counts end at 10,000; `more` and `hidden_more` say that there is more than was counted.
    """

    name: str
    uri: str
    provider: str
    problem: str | None = None
    abilities: Sequence[str] = ()
    watch: str | None = None
    """Whether changes are noticed: `on`, `off`, or by which means where the provider tells."""
    folders: str | None = None
    """Whose they are, where these are not those of the manifest."""
    templates: Sequence[str] = ()
    listed: bool = True
    access: Mapping[str, Sequence[str]] = {}
    """Which scopes are needed, by the option that says so."""
    resources: int = 0
    more: bool = False
    hidden: Sequence[Hidden] = ()
    """The rule that hides most first; what lies below a hidden collection is not counted."""
    hidden_more: bool = False
    warnings: Sequence[str] = ()
    """What is unsafe."""
    mistakes: Sequence[str] = ()
    """Options that cannot have been meant, each with its place in the manifest."""


async def report_mount(
    mount: Mount, provider: str, spec: MountSpec, positions: Positions
) -> Report:
    """Return the report of a mount that was started, or tried to be."""
    report = Report(name=mount.name, uri=mount.base, provider=provider, listed=mount.listed)
    if mount.problem is not None:
        report.problem = uris.display(mount.problem)
        return report
    report.abilities = _abilities(mount)
    report.access = _access(mount)
    try:
        report.watch = _watch(mount)
        report.templates = [mount.base + each.uri_template for each in mount.provider.templates]
        await _count(mount, report)
    except (*FAILURES, asyncio.CancelledError) as error:  # the code of a plugin
        if is_cancelled():
            raise
        log_failure(error, f"asking mount {mount.name} what it offers")
        report.problem = "what it offers cannot be told; -v says why"
    await _sum_up_hidden(mount, report)
    await _warn(mount, report, spec, positions)
    return report


def report_client_roots(manifest: Manifest) -> list[Report]:
    """Return reports of what the client decides: there is nothing before it has offered it."""
    reports: list[Report] = []
    all_go_to: str | None = None
    for spec in manifest.client_roots:
        allowed = spec.client.allow if spec.client is not None else ()
        problems: list[tuple[DataPath, str]] = [
            ((*spec.path, "allow", index), "there is no such folder")
            for index, folder in enumerate(allowed)
            if not _is_folder(folder)
        ]
        if all_go_to is not None:
            text = f"'{all_go_to}' above takes all folders; give it 'allow', or move it to the end"
            problems.append(((*spec.path, "from"), text))
        elif not allowed:
            all_go_to = spec.name
        report = _of_client(spec)
        report.mistakes = [_mistake(manifest.positions, *problem) for problem in problems]
        reports.append(report)
    return reports


def _is_folder(path: pathlib.Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # above it is what may not be looked into
        return False


def _of_client(spec: MountSpec) -> Report:
    limits = " below what 'allow' names" if spec.client and spec.client.allow else ""
    folders = (
        f"those that the client offers{limits}, over standard input and output; "
        "none over HTTP, from revision 2026-07-28 on, or without its capability 'roots'"
    )
    uri = f"{spec.base}{{folder}}/"
    return Report(name=spec.name, uri=uri, provider=str(spec.use), folders=folders)


def _abilities(mount: Mount) -> list[str]:
    """Return what a mount can do, in words for the operator."""
    optional = {
        "complete": mount.completes,
        "walk": mount.walks,
        "fetch": mount.fetches,
        "explain": mount.explains,
        "hides": mount.hides,
        "tools": mount.tools,
        "watch": mount.watches,
    }
    found = [name for name, ability in optional.items() if ability is not None]
    return ["list", "read", "metadata", *found]


def _access(mount: Mount) -> Mapping[str, Sequence[str]]:
    rules = {"access": mount.access} if mount.access else {}
    if mount.restricts is not None:
        rules |= mount.restricts.restrictions
    return {option: sorted(scopes) for option, scopes in rules.items()}


def _watch(mount: Mount) -> str:
    if mount.watches is None:
        return "off"
    # Of a provider that has several ways to watch.
    means: object = getattr(mount.provider, "watched_by", None)
    return means if isinstance(means, str) else "on"


async def _count(mount: Mount, report: Report) -> None:
    alone = Catalog([mount], CatalogLimits(page_size=1000))
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


async def _sum_up_hidden(mount: Mount, report: Report) -> None:
    if mount.hides is None:
        return
    try:
        found = await settle(mount.hides.hides(limit=_MOST_COUNTED))
    except (*FAILURES, asyncio.CancelledError) as error:
        if is_cancelled():
            raise
        log_failure(error, f"asking mount {mount.name} what it hides")
        report.problem = "what it hides cannot be told; -v says why"
        return
    by_rule: dict[str, list[Path]] = {}
    for path, rule in found:
        by_rule.setdefault(uris.display(rule), []).append(path)
    rules = sorted(by_rule.items(), key=lambda each: -len(each[1]))
    report.hidden = [Hidden(rule, len(paths), _examples(paths)) for rule, paths in rules]
    report.hidden_more = len(found) >= _MOST_COUNTED


async def _warn(mount: Mount, report: Report, spec: MountSpec, positions: Positions) -> None:
    if not isinstance(mount.provider, SupportsWarnings):
        return
    try:
        found = await settle(mount.provider.warnings())
    except (*FAILURES, asyncio.CancelledError) as error:
        if is_cancelled():
            raise
        log_failure(error, f"asking mount {mount.name} for warnings")
        report.problem = "what is unsafe cannot be told; -v says why"
        return
    report.warnings = [uris.display(text) for option, text in found if not option]
    report.mistakes = [
        _mistake(positions, positions.named(spec.path, option), uris.display(text))
        for option, text in found
        if option
    ]


def _mistake(positions: Positions, at: DataPath, text: str) -> str:
    return str(Diagnostic(positions.file, *positions.value(at), dotted(at), text))


def _examples(paths: Sequence[Path]) -> list[str]:
    return [uris.display("/".join(path)) for path in paths[:_EXAMPLES]]


def print_mount_report(report: Report) -> None:
    """Print a report for people."""
    console.print_line(f"{console.emphasised(report.name)}  {console.escaped(report.uri)}")
    console.print_fields((f"  {name}", value) for name, value in _facts(report))


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    yield "provider", report.provider
    yield "problem", report.problem or ""
    yield "folders", report.folders or ""
    yield "offers", ", ".join(report.abilities)
    yield "watch", report.watch or ""
    if not report.listed:
        yield "listed", "no, only readable by URI"
    elif report.problem is None and report.folders is None:
        yield "resources", f"{report.resources:,}{'+' if report.more else ''}"
    for option, scopes in report.access.items():
        yield "access", f"{option}: {', '.join(scopes)}"
    for template in report.templates:
        yield "template", template
    for each in report.hidden[:_MOST_RULES]:
        more = ", …" if each.count > len(each.examples) else ""
        yield "hidden", f"{each.count:,}, {each.rule} ({', '.join(each.examples)}{more})"
    if (rest := len(report.hidden) - _MOST_RULES) > 0:
        yield "hidden", f"and what {rest:,} other rules hide"
    if report.hidden_more:
        yield "hidden", f"and more: only the first {_MOST_COUNTED:,} were counted"
    for warning in report.warnings:
        yield "warning", warning
    for mistake in report.mistakes:
        yield "mistake", mistake
