"""`resource-server serve`: a source over standard input and output, to one MCP client."""

from __future__ import annotations

import os
import pathlib

import click
import msgspec

from resource_server import uris
from resource_server.cli import console, log_output, process_tuning, runner, source_arguments
from resource_server.cli.http_options import NO_TOKENS, Door, refuse_workers
from resource_server.cli.reload import ReloadingServer
from resource_server.manifest import Manifest
from resource_server.manifest.databases.database_url import (
    is_database_url,
    parse_database_url,
    redacted_url,
    resolve_database_url,
)
from resource_server.runtime.timing import DEFAULT_TIMING, Timing
from resource_server.transports import stdio


@click.command("serve", short_help="Serve a source to an MCP client.")
@click.argument("source", required=False)
@click.option("--http", "address", metavar="HOST:PORT", help="Serve many clients over HTTP.")
@click.option("--insecure", is_flag=True, help="Let other machines in without http.auth.")
@click.option("--tls-cert", metavar="FILE", help="Serve https:// with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="The certificate's key, if not in the same file.")
@click.option(
    "--forwarded-allow-ips",
    "proxies",
    metavar="ADDRESSES",
    help="Proxies that may say whose requests they forward: addresses, networks, or *, with which "
    "whoever asks chooses the address that limits are of.",
)
@click.option("--access-log", is_flag=True, help="Log each request as JSON on standard error.")
@click.option(
    "--legacy-sse", "legacy", is_flag=True, help="Serve clients of 2024-11-05 as well, at /sse."
)
@click.option("--workers", hidden=True, expose_value=False, callback=refuse_workers)
@click.option("--strict", is_flag=True, help="Refuse to serve unless everything can be served.")
@source_arguments.common_options
def command(
    source: str | None,
    *,
    address: str | None,
    insecure: bool,
    tls_cert: str | None,
    tls_key: str | None,
    proxies: str | None,
    access_log: bool,
    legacy: bool,
    strict: bool,
    no_plugins: bool,
    verbose: int,
) -> int:
    """Serve SOURCE to an MCP client over standard input and output.

    A mount that cannot start is reported, and the others serve; it is tried again when asked for.
    A manifest that changes is loaded again; the code of plugins is not.
    """
    if address is not None:
        door = Door(address, insecure, tls_cert, tls_key, proxies, access_log, legacy)
        return _over_http(source, door, strict=strict, no_plugins=no_plugins, verbose=verbose)
    if insecure or tls_cert or tls_key or proxies or access_log or legacy:
        raise click.UsageError("these options need --http", click.get_current_context())
    # First of all: from here on nothing that a plugin prints or reads touches the protocol.
    reader, writer = stdio.claim()
    log_output.log_to_stderr(verbose, blocking=False)
    served = ReloadingServer(source, allow_plugins=not no_plugins, strict=strict)
    if os.isatty(reader):
        console.note(_waiting(served.manifest, source))
    process_tuning.favour_the_loop()
    return runner.run(_serve(served, reader, writer, strict=strict))


def _over_http(
    source: str | None, door: Door, *, strict: bool, no_plugins: bool, verbose: int
) -> int:
    # Imported here: one client over standard input and output does without.
    from resource_server.cli import log_output
    from resource_server.transports.http.server import uvicorn_server

    try:
        address = uvicorn_server.parse_listen_address(door.address)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--http") from None
    door.check()
    timing = click.get_current_context().find_object(Timing) or DEFAULT_TIMING
    certificate = uvicorn_server.Certificate(door.tls_cert, door.tls_key) if door.tls_cert else None
    log_output.log_to_stderr(verbose, blocking=False)
    if door.logs_access:
        log_output.enable_access_log()
    served = ReloadingServer(
        source, allow_plugins=not no_plugins, strict=strict, over_http=True, timing=timing
    )
    http = served.manifest.http
    if reason := door.refusal(http, is_loopback=address.is_loopback):
        return console.fail(reason)
    if served.server.catalog.visibility.scopes and not http.auth:
        console.note(NO_TOKENS)

    async def serve() -> int:
        process_tuning.keep_buffers_soon()
        async with served as server:
            if strict and (problems := await server.catalog.start()):
                return console.fail(f"refused to serve without: {', '.join(problems)}")
            try:
                await uvicorn_server.serve_http(
                    server,
                    http,
                    address,
                    started=lambda actual: console.note(f"serving at {actual.url}"),
                    certificate=certificate,
                    proxies=door.proxies,
                    logs_access=door.logs_access,
                    legacy=door.is_legacy,
                    timing=timing,
                )
            except OSError as error:
                return console.fail(f"cannot listen on {door.address}: {error.strerror}")
            except ValueError as error:
                return console.fail(str(error))
        return 0

    process_tuning.favour_the_loop()
    return runner.run(serve(), busy=True)


async def _serve(served: ReloadingServer, reader: int, writer: int, *, strict: bool) -> int:
    process_tuning.keep_buffers_soon()
    async with served as server:
        if strict and (problems := await server.catalog.start()):
            return console.fail(f"refused to serve without: {', '.join(problems)}")
        try:
            await stdio.serve(server, reader, writer, roots=served.offer)
        except OSError as error:
            return console.fail(f"answers cannot be written: {error.strerror}")
    return 0


def _waiting(manifest: Manifest, source: str | None) -> str:
    """Say to a person at a terminal what is served, and who is expected there instead."""
    bases = [spec.base for spec in manifest.mounts]
    served = ", ".join([*bases, *["the client's folders" for _ in manifest.client_roots[:1]]])
    place = str(pathlib.Path(source or ".").absolute())
    if source and is_database_url(source):
        url = resolve_database_url(parse_database_url(source), pathlib.Path.cwd())
        place = redacted_url(url.text)
    config = {"command": "resource-server", "args": ["serve", uris.display(place)]}
    line = msgspec.json.encode(config).decode()
    return f"serving {served} to an MCP client, which starts it by {line}; Ctrl-D ends"
