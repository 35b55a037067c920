"""`resource-server version`: the version, as `--version` prints it."""

from __future__ import annotations

import click

from resource_server import __version__


@click.command("version")
def command() -> None:
    """Print the version."""
    click.echo(f"resource-server, version {__version__}")
