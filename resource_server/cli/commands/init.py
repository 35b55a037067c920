"""`resource-server init`: writes a commented starter manifest for a folder or a database."""

from __future__ import annotations

import pathlib

import click

from resource_server.cli import console, log_output, runner, source_arguments
from resource_server.errors import MountUnavailable, ResourceError
from resource_server.manifest import sources, starter
from resource_server.manifest.databases.database_url import DatabaseUrl


@click.command("init", short_help="Write a starter manifest.")
@click.argument("source", default=".")
@click.option("--force", is_flag=True, help="Overwrite an existing manifest.")
@click.option("--output", "-o", "to", metavar="NAME", help="File name, or - for standard output.")
def command(source: str, force: bool, to: str | None) -> int:
    """Write a commented manifest that serves SOURCE.

    It is written into a folder, beside a database file or data files, and for a database server
    into the current folder.
    """
    log_output.log_to_stderr(0)
    url = sources.database_of(source)
    if url is not None:
        path = url.folder if url.is_file else pathlib.Path()
        return runner.run(_of_database(url, path, to, force=force))
    path = pathlib.Path(source)
    if not path.is_dir():
        reason = "neither a folder nor a database" if path.exists() else "no such folder"
        return console.fail(f"{reason}: {source}")
    return _write(starter.folder_manifest(path), path, to, force=force)


async def _of_database(url: DatabaseUrl, path: pathlib.Path, to: str | None, *, force: bool) -> int:
    # Imported here: a folder does without.
    from resource_server.manifest.databases import table_survey

    after_s = source_arguments.current_timing().progress_s
    try:
        with console.progress("reading the tables", after_s=after_s):
            text = await table_survey.starter_manifest(url)
    except (MountUnavailable, ResourceError) as error:
        return console.fail(f"the database cannot be read: {error}")
    return _write(text, path, to, force=force)


def _write(text: str, path: pathlib.Path, to: str | None, *, force: bool) -> int:
    """Write a manifest into a folder, or print it."""
    if to == "-":
        console.write_text(text)
        return 0
    if to is not None and pathlib.Path(to).suffix.lower() not in sources.SUFFIXES:
        endings = ", ".join(sources.SUFFIXES)
        return console.fail(f"the name of a manifest must end in one of {endings}", status=2)
    file = sources.manifest_file(str(path)) if to is None else path / to
    if file is None or file.parent != path:
        return console.fail(
            "a manifest is written beside its source; give a name without a folder", status=2
        )
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return console.fail(f"already exists; --force overwrites it: {file}")
    except OSError as error:
        return console.fail(f"cannot be written, {error.strerror}: {file}")
    console.print_line(f"wrote {console.escaped(str(file))}")
    return 0
