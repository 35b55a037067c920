"""`resource-server init`: a commented manifest for a folder, to begin with."""

from __future__ import annotations

import pathlib

import click

from resource_server.cli import messages, output
from resource_server.manifest import init
from resource_server.manifest.sources import FILE_NAME


@click.command("init", short_help="Write a manifest to begin with.")
@click.argument("folder", metavar="[SOURCE]", default=".")
@click.option("--force", is_flag=True, help="Overwrite a manifest that is there.")
@click.option("--output", "-o", "to", metavar="NAME", help="Another file name; - prints it.")
def command(folder: str, force: bool, to: str | None) -> int:
    """Write a commented manifest that serves the folder SOURCE, into it."""
    path = pathlib.Path(folder)
    if not path.is_dir():
        reason = "not a folder" if path.exists() else "no such folder"
        return messages.failed(f"{reason}: {folder}")
    text = init.write(path)
    if to == "-":
        output.document(text)
        return 0
    file = path / (to or FILE_NAME)
    if file.parent != path:
        return messages.failed(
            "a manifest lies in the folder that it serves; name no other", status=2
        )
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return messages.failed(f"exists already; --force overwrites it: {file}")
    except OSError as error:
        return messages.failed(f"cannot be written, {error.strerror}: {file}")
    output.line(f"wrote {messages.shown(str(file))}")
    return 0
