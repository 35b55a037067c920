"""`resource-server index`: builds the search indexes of folders, or deletes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

import click
from anyio import to_thread

from resource_server.cli import console, log_output, runner, source_arguments
from resource_server.errors import MountUnavailable, ResourceError
from resource_server.runtime.option_types import short_size
from resource_server.search.indexes import HasIndex, MountIndex
from resource_server.serving import server_builder


@click.command("index", short_help="Build or delete the search indexes of folders.")
@source_arguments.sources_argument
@click.option("--drop", is_flag=True, help="Delete the indexes instead.")
@source_arguments.common_options
def command(words: Sequence[str], drop: bool, no_plugins: bool, verbose: int) -> int:
    """Build the search index of each folder of a SOURCE that has `index: true`, or update it.

    A server does so itself, in the background. Exit status 1: an index cannot be kept in `cache`.
    """
    log_output.log_to_stderr(verbose)
    manifest = server_builder.load_manifest(*words, allow_plugins=not no_plugins)
    providers = server_builder.make_providers(manifest, allow_plugins=not no_plugins)
    found = {
        name: provider.search_index
        for name, provider in providers
        if isinstance(provider, HasIndex) and provider.search_index is not None
    }
    if not found:
        return console.fail(
            "no root of the source has an index; in the manifest, write 'index: true' and"
            " 'cache: .cache' below a root ('resource-server init' writes a first manifest)"
        )
    return runner.run(_run(found, drop=drop))


async def _run(indexes: Mapping[str, MountIndex], *, drop: bool) -> int:
    status = 0
    after_s = source_arguments.current_timing().progress_s
    for name, index in indexes.items():
        try:
            with console.progress(f"indexing {name}", after_s=after_s):
                said = await to_thread.run_sync(lambda index=index: _work(index, drop=drop))
        except (MountUnavailable, ResourceError, OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error) or "it is not accessible"
            said, status = reason, 1
        console.print_line(console.escaped(f"{name}: {said}"))
    return status


def _work(index: MountIndex, *, drop: bool) -> str:
    try:
        if drop:
            return "index deleted" if index.drop() else "has no index"
        if not index.build():
            return "another process keeps its index current"
    finally:
        index.close()
    state = index.state
    said = f"{state.documents:,} documents, {short_size(state.size)}B"
    return f"{said}; {state.waiting:,} could not be added yet" if state.waiting else said
