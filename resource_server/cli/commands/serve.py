"""`resource-server serve`: serves its sources to MCP clients, over stdio or HTTP."""

from __future__ import annotations

import os
import pathlib
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.cli import console, log_output, program, runner, source_arguments
from resource_server.cli.http_options import MAX_WORKERS, NO_TOKENS, HttpOptions
from resource_server.manifest import Manifest, sources
from resource_server.manifest.databases.database_url import (
    is_database_url,
    parse_database_url,
    redacted_url,
    resolve_database_url,
)
from resource_server.runtime import extras
from resource_server.serving.reload import ReloadingServer
from resource_server.transports import stdio

if TYPE_CHECKING:
    from resource_server.transports.http.server.uvicorn_server import Address, Certificate
    from resource_server.transports.http.workers.worker import Worker


@click.command("serve", short_help="Serve sources to an MCP client.")
@source_arguments.sources_argument
@click.option("--http", "address", metavar="HOST:PORT", help="Serve many clients over HTTP.")
@click.option("--insecure", is_flag=True, help="Allow other machines without http.auth.")
@click.option("--tls-cert", metavar="FILE", help="Serve https:// with this PEM certificate.")
@click.option("--tls-key", metavar="FILE", help="Key of the certificate, if in another file.")
@click.option(
    "--forwarded-allow-ips",
    "proxies",
    metavar="ADDRESSES",
    help="Proxies whose X-Forwarded-For is trusted: addresses, networks, or *, which lets every "
    "client choose the address that limits apply to.",
)
@click.option("--access-log", is_flag=True, help="Log each request to standard error as JSON.")
@click.option(
    "--legacy-sse",
    "legacy",
    is_flag=True,
    help="Also serve clients of 2024-11-05, at /sse.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    default=1,
    help="Serve by so many processes, which one more starts again if they die.",
)
@click.option("--demo", "is_demo", is_flag=True, help="Serve an example, made for the occasion.")
@click.option(
    "--strict", is_flag=True, help="Refuse unless every mount starts and no option is a mistake."
)
@source_arguments.common_options
def command(
    words: Sequence[str],
    *,
    address: str | None,
    insecure: bool,
    tls_cert: str | None,
    tls_key: str | None,
    proxies: str | None,
    access_log: bool,
    legacy: bool,
    workers: int,
    is_demo: bool,
    strict: bool,
    no_plugins: bool,
    verbose: int,
) -> int:
    """Serve each SOURCE to an MCP client over standard input and output, or over HTTP.

    Several sources are one server; each has a name of its own, and so its own URIs.

    A mount that cannot start is reported and retried on request; the others serve. A rule that
    hides nothing is reported. A changed manifest is reloaded; the code of plugins is not.
    """
    if is_demo and words:
        raise console.usage_error("--demo takes the place of SOURCE")
    options = None
    if address is not None:
        options = HttpOptions(
            address, insecure, tls_cert, tls_key, proxies, access_log, legacy, workers
        )
    elif insecure or tls_cert or tls_key or proxies or access_log or legacy or workers > 1:
        raise console.usage_error("these options need --http")
    serving = _over_stdio if options is None else partial(_over_http, options=options)
    if not is_demo:
        return serving(_ServeArguments(words, strict, not no_plugins, verbose))
    # Imported here: only a demonstration needs it.
    from resource_server.cli import demo

    with demo.made() as sources:
        hints = demo.hints(sources)
        return serving(_ServeArguments(sources, strict, not no_plugins, verbose, hints))


class _ServeArguments(NamedTuple):
    """What is served, over stdio as over HTTP."""

    words: Sequence[str]
    is_strict: bool
    allow_plugins: bool
    verbose: int
    hints: Sequence[str] = ()

    def server(self, *, over_http: bool = False) -> ReloadingServer:
        return ReloadingServer(
            *self.words,
            allow_plugins=self.allow_plugins,
            strict=self.is_strict,
            over_http=over_http,
            tell=console.note,
            timing=source_arguments.current_timing(),
        )


def _over_stdio(arguments: _ServeArguments) -> int:
    # First: from here on, nothing that a plugin prints or reads touches the protocol.
    reader, writer = stdio.claim()
    log_output.log_to_stderr(arguments.verbose, blocking=False)
    served = arguments.server()
    if os.isatty(reader):
        console.note(f"serving {_served(served.manifest)} to an MCP client; Ctrl-D ends")
        _print_hints(arguments.hints or _connecting(arguments.words))
    runner.favour_the_loop()
    return runner.run(_serve(served, reader, writer, strict=arguments.is_strict))


def _over_http(arguments: _ServeArguments, *, options: HttpOptions) -> int:
    # Imported here: stdio does without.
    extras.require_packages("http", "--http")
    from resource_server.transports.http.server import uvicorn_server

    try:
        address = uvicorn_server.parse_listen_address(options.address)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--http") from None
    options.check()
    certificate = (
        uvicorn_server.Certificate(options.tls_cert, options.tls_key) if options.tls_cert else None
    )
    serve = partial(_serve_address, arguments, options, address, certificate)
    if options.workers == 1:
        return serve(None)
    # Imported here: most servers are one process.
    from resource_server.transports.http.workers.parent import Parent

    try:
        if certificate is not None:
            certificate.check()
        listening = uvicorn_server.listen(address)
    except OSError as error:
        return console.fail(f"cannot listen on {options.address}: {error.strerror}")
    except ValueError as error:
        return console.fail(str(error))
    actual = address.bound_to(listening, has_tls=certificate is not None)
    return Parent(
        options.workers,
        listening,
        lambda worker: program.leave_after(partial(serve, worker)),
        started=lambda: _announce(actual.url, arguments.hints),
        report=console.note,
        timing=source_arguments.current_timing(),
    ).run()


def _serve_address(
    arguments: _ServeArguments,
    options: HttpOptions,
    address: Address,
    certificate: Certificate | None,
    worker: Worker | None,
) -> int:
    """Serve at an address, alone or as one of several workers."""
    from resource_server.transports.http.server import uvicorn_server

    reports = worker is None or worker.reports
    timing = source_arguments.current_timing()
    log_output.log_to_stderr(arguments.verbose, blocking=False, reports=not reports)
    if options.logs_access:
        log_output.enable_access_log()
    served = arguments.server(over_http=True)
    served.reports = reports
    http = served.manifest.http
    if reason := options.refusal(served.manifest, is_loopback=address.is_loopback):
        return console.fail(reason)
    served.takes_samples = address.is_loopback
    if served.server.catalog.visibility.scopes and not http.auth and reports:
        console.note(NO_TOKENS)

    def started(actual: Address) -> None:
        if worker is None:
            _announce(actual.url, arguments.hints)
        else:
            worker.ready()

    async def serve() -> int:
        _prepare_soon(served.manifest)
        async with served as server:
            if arguments.is_strict and (status := await _refused(server.catalog)):
                return status
            try:
                await uvicorn_server.serve_http(
                    server,
                    http,
                    address,
                    started=started,
                    certificate=certificate,
                    proxies=options.proxies,
                    logs_access=options.logs_access,
                    legacy=options.is_legacy,
                    key=served.manifest.server.secret,
                    worker=worker,
                    timing=timing,
                )
            except OSError as error:
                return console.fail(f"cannot listen on {options.address}: {error.strerror}")
            except ValueError as error:
                return console.fail(str(error))
        return 0

    runner.favour_the_loop()
    return runner.run(serve(), busy=True)


async def _serve(served: ReloadingServer, reader: int, writer: int, *, strict: bool) -> int:
    _prepare_soon(served.manifest)
    async with served as server:
        if strict and (status := await _refused(server.catalog)):
            return status
        try:
            await stdio.serve(server, reader, writer, roots=served.offer)
        except OSError as error:
            return console.fail(f"responses cannot be written: {error.strerror}")
    return 0


async def _refused(catalog: Catalog) -> int:
    """Return the exit status if a mount does not start or an option is a mistake; 0 if not."""
    problems = await catalog.start()
    mistakes = await catalog.survey()
    if problems:
        return console.fail(f"refused to serve without {', '.join(problems)}", *mistakes)
    if mistakes:
        return console.fail("refused to serve with mistakes in the manifest", *mistakes)
    return 0


def _announce(url: str, hints: Sequence[str]) -> None:
    console.note(f"serving at {url}")
    if sys.stderr.isatty():
        _print_hints([f"To connect a host: resource-server install HOST --http {url}", *hints])


def _print_hints(hints: Sequence[str]) -> None:
    for line in hints:
        console.note(line, prefix=False)


def _served(manifest: Manifest) -> str:
    bases = [spec.base for spec in manifest.mounts]
    return ", ".join([*bases, *["the client's folders" for _ in manifest.client_roots[:1]]])


def _connecting(words: Sequence[str]) -> Sequence[str]:
    """Return hints for `serve` at a terminal, where it expects a client."""
    places = [uris.display(_absolute(source)) for source in words or (".",)]
    config = {"command": "resource-server", "args": ["serve", *places]}
    named = shlex.join(uris.display(redacted_url(source)) for source in words)
    options = "-- " if any(source.startswith("-") for source in words) else ""
    return [
        "A client starts this by itself. To connect one, or to look at what is served:",
        f"  resource-server install HOST {options}{named}".rstrip(),
        f"  resource-server list {options}{named}".rstrip(),
        f"Other clients are configured with {msgspec.json.encode(config).decode()}",
    ]


def _absolute(source: str) -> str:
    """Return a source as it is named from every folder, without a password."""
    if sources.is_object_url(source):
        return source
    if not is_database_url(source, is_source=True):
        return str(pathlib.Path(source).absolute())
    url = resolve_database_url(parse_database_url(source), pathlib.Path.cwd())
    return redacted_url(url.text)


def _prepare_soon(manifest: Manifest) -> None:
    """Do what later requests would wait for, once the first response is out."""
    runner.keep_buffers_soon()
    # A database is a provider by its name; a folder without a manifest is its provider.
    specs = (*manifest.mounts, *manifest.client_roots)
    if any(spec.use != "database" for spec in specs):
        runner.find_converters_soon()
