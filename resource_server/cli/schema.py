"""`resource-server schema`: the manifest's JSON Schema, for editors."""

from __future__ import annotations

import click

from resource_server.cli import output


@click.command("schema", short_help="Print the manifest's JSON Schema.")
def command() -> None:
    """Print the JSON Schema of manifests, built-in and installed providers included."""
    # Imported here: pydantic is not needed to say what this command does.
    from resource_server.manifest.schema import schema

    output.indented_json(schema())
