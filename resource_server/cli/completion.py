"""Completion in shells: click's own, with files, mounts and URIs of the sources given before."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

import click
from click import shell_completion
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import CatalogEntry
from resource_server.cli import addresses, runner
from resource_server.errors import NotACollection, ResourceError, ResourceServerError
from resource_server.runtime.eager import within
from resource_server.serving import server_builder

_TIMEOUT_S = 2.0
_MAX_LISTED = 10_000
_FROM_HERE = ("/", "./", "../", "~")

_BASH = r"""
%(complete_func)s() {
    local before="${COMP_LINE:0:COMP_POINT}" type value
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            path) compopt -o filenames; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
        [[ $value == */ ]] && compopt -o nospace
    done < <(env COMP_LINE="$before" COMP_WORDBREAKS="$COMP_WORDBREAKS" \
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """Bash, which takes a URI for several words: they are split here instead, from the line."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = shell_completion.split_arg_string(line)[1:]
        return (words, "") if not words or line[-1:].isspace() else (words[:-1], words[-1])

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        found = super().get_completions(args, incomplete)
        # Bash replaces what follows the last break only.
        breaks = set(os.environ.get("COMP_WORDBREAKS", "")) & set(":=")
        kept = max((incomplete.rfind(each) + 1 for each in breaks), default=0)
        for item in found:
            if item.type == "plain":
                item.value = item.value[kept:]
        return found

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"path,{item.value}" if item.is_path else super().format_completion(item)


class _Zsh(ZshComplete):
    """Zsh, without a space after a collection."""

    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions", "compadd -U -S '' -V unsorted -a completions"
    )


SHELLS = {"bash": _Bash, "zsh": _Zsh, "fish": FishComplete}


def script(program: click.Command, name: str, variable: str, shell: str) -> str:
    """Return the script that a shell sources to complete a program.

    It runs the program with `variable` in its environment, to be answered by `answer`.
    """
    return SHELLS[shell](program, {}, name, variable).source()


def answer(program: click.Command, name: str, variable: str) -> int:
    """Print completions for a shell's script, and return the exit status."""
    for each in SHELLS.values():
        shell_completion.add_completion_class(each)
    logging.disable()  # the person is typing
    try:
        return shell_completion.shell_complete(program, {}, name, variable, os.environ[variable])
    finally:
        logging.disable(logging.NOTSET)


# -- values


def sources(incomplete: str) -> list[CompletionItem[str]]:
    """Return how a source is completed: as a file."""
    return [CompletionItem(incomplete, type="file")]


def addresses_in(
    context: click.Context, words: Sequence[str], incomplete: str
) -> list[CompletionItem[str]]:
    """Return URIs and paths that begin so, in the sources among the words before.

    Plugins do not run, and what cannot be listed in time is left out.
    """
    is_uri = addresses.is_uri(incomplete)
    if not is_uri and (not words or incomplete.startswith(_FROM_HERE)):
        return sources(incomplete)
    try:
        with context.scope(cleanup=False):
            named = addresses.with_addresses(words).sources
        manifest = server_builder.load_manifest(*named, allow_plugins=False)
        server = server_builder.build_server(manifest, allow_plugins=False)
        found: list[CompletionItem[str]] = []
        runner.run(_collect(server.catalog, incomplete, found))
    except (click.UsageError, ResourceServerError, OSError):
        return sources(incomplete)
    return found or ([] if is_uri else sources(incomplete))


async def _collect(catalog: Catalog, incomplete: str, into: list[CompletionItem[str]]) -> int:
    async with catalog:
        try:
            await within(_TIMEOUT_S, _items(catalog, incomplete, into))
        except ResourceServerError:
            return 1
    return 0


async def _items(catalog: Catalog, incomplete: str, into: list[CompletionItem[str]]) -> None:
    parent, slash, _ = incomplete.rpartition("/")
    bases = [mount.base for mount in catalog.mounts]
    into += [CompletionItem(base) for base in bases if base.startswith(incomplete)]
    if addresses.is_uri(incomplete):
        async for entry in _children(catalog, parent + slash):
            uri = _ending(entry, entry.uri)
            if uri.startswith(incomplete):
                into.append(CompletionItem(uri))
        return
    above = [each for each in parent.split("/") if each]
    if not all(map(uris.is_segment, above)):
        return
    for base in bases:
        async for entry in _children(catalog, uris.join(base, above)):
            path = _ending(entry, parent + slash + entry.resource.path[-1])
            if path.startswith(incomplete) and path.isprintable():
                into.append(CompletionItem(path, is_path=True))


async def _children(catalog: Catalog, uri: str) -> AsyncIterator[CatalogEntry]:
    """Yield the first children of a collection, and nothing for a document."""
    after: str | None = None
    count = 0
    while count < _MAX_LISTED:
        try:
            page = await catalog.list(uri, after)
        except (ResourceError, NotACollection):
            return
        for entry in page.entries:
            yield entry
        count += len(page.entries)
        after = page.next_cursor
        if after is None:
            return


def _ending(entry: CatalogEntry, text: str) -> str:
    return f"{text}/" if entry.resource.type == "collection" else text
