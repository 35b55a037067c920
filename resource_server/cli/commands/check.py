"""`resource-server check`: reports what is exposed, hidden or wrong, and explains why."""

from __future__ import annotations

from collections.abc import Sequence

import click

from resource_server import media_types, uris
from resource_server.catalog.catalog import Catalog
from resource_server.cli import (
    check_report,
    console,
    log_output,
    runner,
    server_builder,
    source_arguments,
)
from resource_server.cli.http_options import NO_TOKENS
from resource_server.errors import ResourceBusy, ResourceError, ResourceNotFound
from resource_server.manifest import Manifest
from resource_server.protocol.revisions import LATEST_MODERN
from resource_server.protocol.server import Server
from resource_server.protocol.tools.registry import tool_cost


@click.command("check", short_help="Report what is exposed, hidden or wrong.")
@click.argument("source", required=False)
@click.option(
    "--explain",
    "explained",
    multiple=True,
    metavar="URI",
    help="Explain why URI is exposed or hidden.",
)
@source_arguments.json_option
@source_arguments.common_options
def command(
    source: str | None, explained: Sequence[str], as_json: bool, no_plugins: bool, verbose: int
) -> int:
    """Open every mount of SOURCE and report what it exposes and hides.

    Exit status 1: a mount cannot be served, or an option has no effect; 2: the manifest is invalid.
    """
    log_output.log_to_stderr(verbose)
    manifest = server_builder.load_manifest(source, allow_plugins=not no_plugins, strict=True)
    server = server_builder.build_server(manifest, allow_plugins=not no_plugins)
    if explained:
        return runner.run(_explain(server.catalog, explained, as_json=as_json))
    return runner.run(_check(server, manifest, as_json=as_json))


async def _check(server: Server, manifest: Manifest, *, as_json: bool) -> int:
    catalog = server.catalog
    uses = [
        spec.use if isinstance(spec.use, str) else type(spec.use).__name__.lower()
        for spec in manifest.mounts
    ]
    async with catalog:
        await catalog.start()
        reports = [
            await check_report.report_mount(mount, use, spec, manifest.positions)
            for mount, use, spec in zip(catalog.mounts, uses, manifest.mounts, strict=True)
        ]
        prompts = [
            await check_report.report_prompt(catalog, name, prompt, manifest.positions)
            for name, prompt in manifest.prompts.items()
        ]
        tools = await tool_cost(server.toolbox, LATEST_MODERN)
    reports += check_report.report_client_roots(manifest)
    if not manifest.http.auth:
        for each in reports:
            if each.access:
                each.warnings = [*each.warnings, NO_TOKENS]
    problem = media_types.magic_problem()
    if as_json:
        found = {"mounts": reports, "prompts": prompts, "tools": tools}
        console.print_indented_json({**found, "libmagicProblem": problem})
    else:
        for each in reports:
            check_report.print_mount_report(each)
        for each in prompts:
            check_report.print_prompt_report(each)
        if tools.count:
            console.print_line(f"{tools.count} tools, about {tools.tokens:,} tokens in tools/list")
        if problem is not None:
            console.note(problem)
    unusable = any(each.problem or each.mistakes for each in reports)
    return 1 if unusable or any(each.mistakes for each in prompts) else 0


async def _explain(catalog: Catalog, asked: Sequence[str], *, as_json: bool) -> int:
    status = 0
    bases = ", ".join(mount.base for mount in catalog.mounts) or "none"
    async with catalog:
        for uri in map(source_arguments.typed_uri, asked):
            try:
                text = await _explanation(catalog, uri)
            except ResourceNotFound:
                text, status = f"the URI is outside all mounts; known base URIs: {bases}", 1
            except ResourceBusy:
                text, status = "its mount is unavailable now", 1
            if as_json:
                console.print_json({"uri": uri, "explanation": uris.display(text)})
            else:
                console.print_line(console.escaped(f"{uri}: {text}"))
    return status


async def _explanation(catalog: Catalog, uri: str) -> str:
    """Return one sentence about a URI, whether visible or hidden."""
    mount, path, _ = await catalog.locate(uri)
    try:
        if "explain" in mount.provider.abilities:
            text = await mount.provider.explain(path)
        else:
            await mount.provider.metadata(path)
            text = f"exposed by {mount.name}"
    except ResourceError as error:
        text = f"hidden by {mount.name}: {error}"
    scopes = ", ".join(sorted(mount.access))
    return f"{text}; {mount.name} requires {scopes} (access)" if scopes else text
