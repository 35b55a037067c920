"""`resource-server explore`: shows in a browser what sources serve, and models are given."""

from __future__ import annotations

import secrets
import threading
import webbrowser
from collections.abc import Sequence

import click
from msgspec import structs

from resource_server.cli import console, log_output, runner, source_arguments
from resource_server.manifest.http import Auth, Http
from resource_server.runtime import extras
from resource_server.serving.reload import ReloadingServer


@click.command("explore", short_help="Look at sources in a browser.")
@source_arguments.sources_argument
@click.option("--no-open", is_flag=True, help="Print the link, and open no browser.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default a free one.")
@source_arguments.common_options
def command(
    words: Sequence[str], *, no_open: bool, port: int, no_plugins: bool, verbose: int
) -> int:
    """Show each SOURCE in a browser as it is served: folders, tables, and what a model is given.

    Only programs on this machine can connect, and only the browser that opens the link is let in.
    The link works once.
    """
    extras.require_packages("explorer", "explore")
    extras.require_packages("http", "explore")
    # Imported here: other commands do without.
    from resource_server.transports.http.server import uvicorn_server

    log_output.log_to_stderr(verbose, blocking=False)
    served = ReloadingServer(
        *words, allow_plugins=not no_plugins, over_http=True, tell=console.note
    )
    code = secrets.token_urlsafe(32)

    def announce(actual: uvicorn_server.Address) -> None:
        link = actual.url.removesuffix(uvicorn_server.PATH) + f"/explore/sign-in?code={code}"
        console.note(f"open {link}")
        console.note("Ctrl-C ends", prefix=False)
        if not no_open:
            # Some browsers keep the call until they end.
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

    async def serve() -> int:
        async with served as server:
            try:
                await uvicorn_server.serve_http(
                    server,
                    _private(served.manifest.http),
                    uvicorn_server.Address("127.0.0.1", port),
                    started=announce,
                    link_code=code,
                    timing=source_arguments.current_timing(),
                )
            except OSError as error:
                return console.fail(f"cannot listen on port {port}: {error.strerror}")
        return 0

    runner.favour_the_loop()
    return runner.run(serve(), busy=True)


def _private(http: Http) -> Http:
    """Return options under which nobody has a token: other users of the machine see nothing."""
    auth = Auth(tokens=(secrets.token_hex(32),))
    return structs.replace(http, url=None, auth=auth, explorer=True)
