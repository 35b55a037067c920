"""`resource-server check`: reports what is exposed, hidden or wrong, and explains why."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import click
import msgspec
from anyio import to_thread

from resource_server import media_types, uris
from resource_server.access import claim_path
from resource_server.audit.activity import NAME
from resource_server.catalog.catalog import Catalog, CatalogLimits
from resource_server.catalog.contract_guard import Ability
from resource_server.catalog.global_listing import GlobalListing, ListingBounds
from resource_server.catalog.mount import Mount, log_failure
from resource_server.cli import addresses, console, log_output, runner, source_arguments
from resource_server.cli.http_options import access_warning
from resource_server.cli.replicas import record_notes, record_problems, replica_notes
from resource_server.conversion import registry
from resource_server.errors import ConversionError, ResourceBusy, ResourceError, ResourceNotFound
from resource_server.manifest import Manifest, MountSpec, Positions
from resource_server.manifest.data import DataPath
from resource_server.manifest.prompts import Prompt
from resource_server.protocol.prompts.argument_completion import (
    completion_template,
    variable_position,
)
from resource_server.protocol.prompts.rendering import filled_uri
from resource_server.protocol.revisions import LATEST_MODERN
from resource_server.protocol.server import Server
from resource_server.protocol.tools.registry import ToolCost, tool_cost
from resource_server.provider import Path
from resource_server.runtime import extras
from resource_server.serving import server_builder

_MAX_COUNTED = 10_000
_FIRST_PAGE = 3
_COUNTED_AT_A_TIME = 1000
_MAX_RULES = 20
_EXAMPLES = 3


@click.command("check", short_help="Report what is exposed, hidden or wrong.")
@source_arguments.sources_argument
@click.option(
    "--explain",
    "explained",
    multiple=True,
    metavar="URI",
    shell_complete=source_arguments.complete_addresses,
    help="Explain why URI, or the path of a file, is exposed or hidden.",
)
@click.option(
    "--claims",
    multiple=True,
    metavar="NAME=VALUE",
    help="Look with the claim NAME of a caller, in place of those in `server`.",
)
@source_arguments.json_option
@source_arguments.common_options
def command(
    words: Sequence[str],
    explained: Sequence[str],
    *,
    claims: Sequence[str],
    as_json: bool,
    no_plugins: bool,
    verbose: int,
) -> int:
    """Open every mount of each SOURCE and report what it exposes and hides.

    Exit status 1: a mount cannot be served, or an option has no effect; 2: the manifest is invalid.
    """
    log_output.log_to_stderr(verbose, reports=True)
    manifest = server_builder.load_manifest(*words, allow_plugins=not no_plugins, strict=True)
    if claims:
        own = replace(manifest.server, claims=_claims(claims))
        manifest = msgspec.structs.replace(manifest, server=own)
    server = server_builder.build_server(
        manifest, allow_plugins=not no_plugins, timing=source_arguments.current_timing()
    )
    if explained:
        asked = [uri for word in explained for uri in addresses.explained(manifest, word)]
        return runner.run(_explain(server.catalog, asked, as_json=as_json))
    return runner.run(_check(server, manifest, as_json=as_json))


def _claims(written: Sequence[str]) -> dict[str, Any]:
    """Return claims written as `sub=alice` or `org.id=7`; what is no JSON is text."""
    claims: dict[str, Any] = {}
    for each in written:
        name, equals, text = each.partition("=")
        try:
            *around, last = claim_path(name)
            inner: Any = claims
            for part in around:
                inner = inner.setdefault(part, cast("dict[str, Any]", {}))
            if not equals or not isinstance(inner, dict):
                raise ValueError("expected NAME=VALUE, each name once")
        except (AttributeError, ValueError) as error:
            raise click.BadParameter(f"{each}: {error}", param_hint="--claims") from None
        try:
            inner[last] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            inner[last] = text
    return claims


async def _check(server: Server, manifest: Manifest, *, as_json: bool) -> int:
    after_s = source_arguments.current_timing().progress_s
    with console.progress("looking at what is served", after_s=after_s):
        report = await _report(server, manifest)
    if as_json:
        console.print_indented_json(report)
    else:
        _print(report)
    problems = [each.problem for each in report.mounts]
    mistakes = [each.mistakes for each in (*report.mounts, *report.prompts)]
    unusable = report.converters is not None and report.converters.unusable
    return 1 if any((*problems, *mistakes, unusable)) else 0


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The report of a manifest and its server."""

    warnings: Sequence[str]
    mounts: Sequence[MountReport]
    prompts: Sequence[PromptReport]
    tools: ToolCost
    record: Sequence[str]
    """Notes on the record of reads."""
    replicas: Sequence[str]
    """Notes for several replicas of a server with an `http` section."""
    converters: ConvertersReport | None
    libmagic_problem: str | None


async def _report(server: Server, manifest: Manifest) -> Report:
    catalog = server.catalog
    async with catalog:
        await catalog.start()
        shown = {mount.origin: mount for mount in catalog.visibility.current().mounts}
        mounts = [
            await _report_mount(mount, shown.get(mount, mount), spec)
            for mount, spec in zip(catalog.mounts, manifest.mounts, strict=True)
        ]
        prompts = [
            await _report_prompt(
                catalog, name, prompt, manifest.prompt_origins.get(name, manifest).positions
            )
            for name, prompt in manifest.prompts.items()
        ]
        tools = await tool_cost(server.toolbox, LATEST_MODERN)
        replicas = await replica_notes(manifest, catalog.mounts)
    mounts += _report_client_roots(manifest)
    for each in mounts:
        warning = access_warning(manifest.http, each.access)
        # The activity does not exist over HTTP then.
        if warning is not None and (manifest.http.auth or each.provider != NAME):
            each.warnings = [*each.warnings, warning]
        if (note := server_builder.claims_note(manifest, each.claims)) is not None:
            each.warnings = [*each.warnings, note]
    warnings = list(map(str, manifest.published_secrets))
    if manifest.http.explorer and extras.missing("explorer"):
        warnings.append(f"http.explorer needs more packages: {extras.install_command('explorer')}")
    warnings += record_problems(manifest)
    converters = await _report_converters(mounts)
    return Report(
        warnings,
        mounts,
        prompts,
        tools,
        record_notes(manifest),
        replicas,
        converters,
        media_types.magic_problem(),
    )


def _print(report: Report) -> None:
    for mount in report.mounts:
        _print_facts(mount.name, mount.uri, _mount_facts(mount))
    for prompt in report.prompts:
        _print_facts(prompt.name, "prompt", _prompt_facts(prompt))
    if report.converters is not None:
        _print_converters(report.converters)
    tools = report.tools
    if tools.count:
        console.print_line(f"{tools.count} tools, about {tools.tokens:,} tokens in tools/list")
    for name, notes in (("record", report.record), ("replicas", report.replicas)):
        for note in notes:
            console.print_line(f"  {name:9}  {console.escaped(note)}")
    for warning in (*tools.warnings, *report.warnings):
        console.print_line(f"  warning    {console.escaped(warning)}")
    if report.libmagic_problem is not None:
        console.note(report.libmagic_problem)


def _print_facts(name: str, kind: str, facts: Iterator[tuple[str, str]]) -> None:
    console.print_line(f"{console.emphasised(console.escaped(name))}  {console.escaped(kind)}")
    console.print_fields((f"  {name}", value) for name, value in facts)


async def _explain(catalog: Catalog, asked: Sequence[str], *, as_json: bool) -> int:
    status = 0
    bases = ", ".join(mount.base for mount in catalog.mounts) or "none"
    async with catalog:
        for uri in asked:
            try:
                text = await catalog.explain(uri)
            except ResourceNotFound:
                text, status = f"the URI is outside all mounts; known base URIs: {bases}", 1
            except ResourceBusy:
                text, status = "its mount is unavailable now", 1
            except Exception as error:  # the code of a plugin
                log_failure(error, "explaining a URI failed")
                text, status = "its mount fails to explain it; -v shows why", 1
            if as_json:
                console.print_json({"uri": uri, "explanation": uris.display(text)})
            else:
                console.print_line(console.escaped(f"{uri}: {text}"))
    return status


# -- mounts


class HiddenByRule(msgspec.Struct, frozen=True):
    """The number of paths that one rule hides, with examples."""

    rule: str
    count: int
    examples: Sequence[str]


class MountReport(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The report of one mount; with a `problem`, other fields may be missing.

    Counts end at 10,000; `more` and `hidden_more` mark counts that are too low.
    """

    name: str
    uri: str
    provider: str
    problem: str | None = None
    abilities: Sequence[str] = ()
    watch: str | None = None
    """How changes are detected: `on`, `off`, or the method that the provider reports."""
    folders: str | None = None
    """Origin of the folders, if the client offers them."""
    templates: Sequence[str] = ()
    listed: bool = True
    access: Mapping[str, Sequence[str]] = {}
    """The required scopes, by the option that requires them."""
    claims: Sequence[str] = ()
    """The claims of callers that decide which rows they see."""
    sql: bool = False
    """Whether callers may send SQL of their own."""
    resources: int = 0
    more: bool = False
    converts: Mapping[str, int] = {}
    """The number of documents that can be read in other formats, by media type."""
    hidden: Sequence[HiddenByRule] = ()
    """By descending count; descendants of a hidden collection are not counted."""
    hidden_more: bool = False
    warnings: Sequence[str] = ()
    """Unsafe settings."""
    mistakes: Sequence[str] = ()
    """Options without effect, each with its position in the manifest."""


async def _report_mount(mount: Mount, shown: Mount, spec: MountSpec) -> MountReport:
    """Return the report of a mount after its start, successful or not.

    `shown` is the mount for callers without tokens, with the claims that the manifest gives them.
    """
    use = spec.use if isinstance(spec.use, str) else type(spec.use).__name__.lower()
    report = MountReport(name=mount.name, uri=mount.base, provider=use, listed=mount.listed)
    if mount.problem is not None:
        report.problem = uris.display(mount.problem)
        return report
    report.abilities = _abilities(mount)
    report.access = _access(mount)
    report.claims = sorted(mount.claims)
    report.sql = use == "database" and bool(spec.options.get("sql"))
    for what, action, of, look in (
        ("resources", "what it offers", shown, _count),
        ("hidden paths", "what it hides", shown, _sum_up_hidden),
        ("warnings", "for warnings", mount, _warn),
    ):
        try:
            await of.start()
            await look(of, report)
        except Exception as error:  # the code of a plugin
            log_failure(error, f"asking mount {mount.name} {action}")
            report.problem = f"its {what} cannot be determined; -v shows why"
    return report


def _report_client_roots(manifest: Manifest) -> list[MountReport]:
    """Return the reports of the client roots; their folders are known once a client connects."""
    reports: list[MountReport] = []
    all_go_to: str | None = None
    for spec in manifest.client_roots:
        allowed = spec.client.allow if spec.client is not None else ()
        problems: list[tuple[DataPath, str]] = [
            ((*spec.path, "allow", index), "no such folder")
            for index, folder in enumerate(allowed)
            if not _is_folder(folder)
        ]
        if all_go_to is not None:
            text = f"'{all_go_to}' above takes all folders; give it 'allow', or move it to the end"
            problems.append(((*spec.path, "from"), text))
        elif not allowed:
            all_go_to = spec.name
        report = _client_root_report(spec)
        positions = (spec.origin or manifest).positions
        report.mistakes = [str(positions.problem(*problem)) for problem in problems]
        reports.append(report)
    return reports


def _is_folder(path: pathlib.Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # an inaccessible parent
        return False


def _client_root_report(spec: MountSpec) -> MountReport:
    limits = " below the folders in 'allow'" if spec.client and spec.client.allow else ""
    folders = (
        f"those that the client offers{limits}, over standard input and output; "
        "none over HTTP, from revision 2026-07-28 on, or without its capability 'roots'"
    )
    uri = f"{spec.base}{{folder}}/"
    return MountReport(name=spec.name, uri=uri, provider=str(spec.use), folders=folders)


def _abilities(mount: Mount) -> list[str]:
    """Return the names of a mount's abilities."""
    optional: Sequence[Ability] = ("complete", "fetch", "check", "tools")
    found = [ability for ability in optional if ability in mount.provider.abilities]
    return ["list", "read", "metadata", *found, *(("watch",) if mount.can_watch else ())]


def _access(mount: Mount) -> Mapping[str, Sequence[str]]:
    rules = {"access": mount.access} if mount.access else {}
    rules |= mount.provider.restrictions
    return {option: sorted(scopes) for option, scopes in rules.items()}


async def _count(mount: Mount, report: MountReport) -> None:
    report.watch = (mount.provider.watched_by or "on") if mount.can_watch else "off"
    report.templates = [mount.base + each.uri_template for each in mount.provider.templates]
    samples: dict[str, Path] = {}
    counts = Counter[str]()
    await _count_resources(mount, report, counts, samples)
    if not mount.provider.parameters >= registry.PARAMETERS:
        return
    for media_type, path in samples.items():
        with suppress(ResourceError):  # gone by now
            resource = await mount.provider.metadata(path)
            if resource.formats:
                report.converts = {**report.converts, media_type: counts[media_type]}


async def _count_resources(
    mount: Mount, report: MountReport, counts: Counter[str], samples: dict[str, Path]
) -> None:
    """Count the resources as clients list them, also by media type; keep a path of each."""
    # A short page first: how a listing goes on must not depend on the number of resources.
    bounds = ListingBounds(
        page_size=_FIRST_PAGE,
        next_page_size=_COUNTED_AT_A_TIME,
        max=_MAX_COUNTED,
        depth=CatalogLimits().listing_depth,
    )
    after: str | None = None
    while True:
        page = await GlobalListing([mount], bounds, source_arguments.current_timing()).page(after)
        if page.failed:
            report.problem = "its resources cannot be listed; -v shows why"
            return
        report.resources += len(page.entries)
        for resource in (entry.resource for entry in page.entries):
            if resource.mime_type is not None and resource.readable:
                counts[resource.mime_type] += 1
                samples.setdefault(resource.mime_type, resource.path)
        report.more = page.left_out_after is not None
        after = page.next_cursor
        if after is None:
            return


async def _sum_up_hidden(mount: Mount, report: MountReport) -> None:
    if "check" not in mount.provider.abilities:
        return
    found = await mount.provider.hides(limit=_MAX_COUNTED)
    by_rule: dict[str, list[Path]] = {}
    for path, rule in found:
        by_rule.setdefault(uris.display(rule), []).append(path)
    rules = sorted(by_rule.items(), key=lambda each: -len(each[1]))
    report.hidden = [HiddenByRule(rule, len(paths), _examples(paths)) for rule, paths in rules]
    report.hidden_more = len(found) >= _MAX_COUNTED


async def _warn(mount: Mount, report: MountReport) -> None:
    report.mistakes, warnings = await mount.survey()
    report.warnings = [uris.display(text) for text in warnings]


def _examples(paths: Sequence[Path]) -> list[str]:
    return [uris.display("/".join(path)) for path in paths[:_EXAMPLES]]


def _mount_facts(report: MountReport) -> Iterator[tuple[str, str]]:
    yield "provider", report.provider
    yield "problem", report.problem or ""
    yield "folders", report.folders or ""
    yield "offers", ", ".join(report.abilities)
    yield "watch", report.watch or ""
    if not report.listed:
        yield "listed", "no, only readable by URI"
    elif report.problem is None and report.folders is None:
        yield "resources", f"{report.resources:,}{'+' if report.more else ''}"
    if report.converts:
        yield "converts", registry.counted_kinds(report.converts)
    for option, scopes in report.access.items():
        yield "access", f"{option}: {', '.join(scopes)}"
    if report.claims:
        yield "rows by", ", ".join(name or "all claims" for name in report.claims)
    if report.sql:
        yield "sql", "takes SQL of callers (query_database)"
    for template in report.templates:
        yield "template", template
    yield from _hidden_facts(report)
    for warning in report.warnings:
        yield "warning", warning
    for mistake in report.mistakes:
        yield "mistake", mistake


def _hidden_facts(report: MountReport) -> Iterator[tuple[str, str]]:
    for each in report.hidden[:_MAX_RULES]:
        more = ", …" if each.count > len(each.examples) else ""
        yield "hidden", f"{each.count:,}, {each.rule} ({', '.join(each.examples)}{more})"
    if (rest := len(report.hidden) - _MAX_RULES) > 0:
        yield "hidden", f"and by {rest:,} other rules"
    if report.hidden_more:
        yield "hidden", f"and more; only the first {_MAX_COUNTED:,} were counted"


# -- prompts


class PromptReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The report of one prompt."""

    name: str
    title: str | None = None
    arguments: Sequence[str] = ()
    required: Sequence[str] = ()
    """The required arguments."""
    mistakes: Sequence[str] = ()
    """References that fail, each with its position in the manifest."""


async def _report_prompt(
    catalog: Catalog, name: str, prompt: Prompt, positions: Positions
) -> PromptReport:
    """Return the report of a prompt; the catalog's mounts must be started."""
    mistakes = [
        str(positions.problem(at, uris.display(text)))
        async for at, text in _prompt_mistakes(catalog, ("prompts", name), prompt)
    ]
    return PromptReport(
        name=name,
        title=prompt.title,
        arguments=list(prompt.arguments),
        required=[name for name, each in prompt.arguments.items() if each.required],
        mistakes=mistakes,
    )


async def _prompt_mistakes(
    catalog: Catalog, path: DataPath, prompt: Prompt
) -> AsyncIterator[tuple[DataPath, str]]:
    for name in prompt.arguments:
        template = completion_template(prompt, name, {})
        if template is not None and await _matches_no_template(catalog, template):
            at = (*path, "arguments", name, "complete")
            yield at, "matches no template of its mount, so nothing is suggested"
    defaults = {name: each.default for name, each in prompt.arguments.items() if each.default}
    for number, message in enumerate(prompt.messages):
        uri = None if message.resource is None else filled_uri(message.resource, defaults)
        problem = None if uri is None else await _read_problem(catalog, uri)
        if problem is not None:
            yield (*path, "messages", number, "resource"), f"{problem}: {uri}"


async def _matches_no_template(catalog: Catalog, template: str) -> bool:
    try:
        mount, *_ = catalog.route(template.partition("{")[0])
    except ResourceError:
        return True
    return mount.problem is None and await variable_position(catalog, template) is None


async def _read_problem(catalog: Catalog, uri: str) -> str | None:
    """Return why a resource cannot be read; None if it can, or if its mount is unavailable."""
    try:
        await catalog.read(uri)
    except ResourceBusy:
        return None
    except ResourceError as error:
        return str(error)
    except Exception as error:  # the code of a plugin
        log_failure(error, "reading a resource of a prompt")
        return "cannot be read; -v shows why"
    return None


def _prompt_facts(report: PromptReport) -> Iterator[tuple[str, str]]:
    yield "title", console.escaped(report.title or "")
    asked = [f"{name} (required)" if name in report.required else name for name in report.arguments]
    yield "arguments", ", ".join(asked)
    for mistake in report.mistakes:
        yield "mistake", mistake


# -- converters


class ConvertersReport(msgspec.Struct, frozen=True):
    """The report of the converters of the documents found, and of their worker processes."""

    protections: Sequence[str]
    """What the kernel enforces on workers, beside the limits of memory and time."""
    missing: Sequence[str]
    """What it does not enforce here."""
    unusable: Mapping[str, str]
    """Why converters of other packages cannot be used, by media type."""


async def _report_converters(mounts: Sequence[MountReport]) -> ConvertersReport | None:
    """Start a worker of each converter that a mount needs; None if there is none."""
    converted = {media_type for mount in mounts for media_type in mount.converts}
    if not converted:
        return None
    entries = {name: registry.entries()[name] for name in converted}
    return await to_thread.run_sync(_tried, entries)


def _tried(entries: Mapping[str, registry.ConverterEntry]) -> ConvertersReport:
    from resource_server.conversion import pool, sandbox

    protections: Sequence[str] = ()
    unusable: dict[str, str] = {}
    tried: list[str] = []
    for name, each in entries.items():
        if any(registry.share_worker(each.reference, other) for other in tried):
            continue
        tried.append(each.reference)
        try:
            protections = pool.shared().protections(each.reference)
        except ConversionError as error:
            unusable[name] = str(error)
    missing = [each for each in sandbox.PROTECTIONS if each not in protections]
    return ConvertersReport(protections, missing, unusable)


def _print_converters(report: ConvertersReport) -> None:
    confined = f", confined by {' and '.join(report.protections)}" if report.protections else ""
    console.print_line(f"converters run in processes of their own{confined}")
    if report.missing:
        missing = " and ".join(report.missing)
        console.print_line(f"  warning    this system does not confine them by {missing}")
    for name, problem in report.unusable.items():
        console.print_line(f"  problem    {console.escaped(f'{name}: {problem}')}")
