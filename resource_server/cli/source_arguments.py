"""Arguments and options that commands share: `[SOURCE]... [URI]...`, `--json`, `--verbose`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from resource_server.cli import console
from resource_server.manifest import sources
from resource_server.manifest.databases.database_url import is_database_url
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])


class SourceArguments(NamedTuple):
    """The sources of a command, by default the current folder, and the addresses in them."""

    sources: Sequence[str]
    addresses: Sequence[str]


def with_one_address(words: Sequence[str]) -> SourceArguments:
    """Split the arguments of a command that takes one address, after its sources.

    Raises:
        click.UsageError: there is no address, or there are several.
    """
    found = _before_uris(words)
    if not found.addresses and words and not is_database_url(words[-1]):
        found = SourceArguments(words[:-1], words[-1:])
    if not found.addresses:
        raise console.usage_error("the URI or path of a resource is missing; `list` prints URIs")
    return _at_most_one(found)


def with_addresses(words: Sequence[str], *, several: bool = True) -> SourceArguments:
    """Split the arguments of a command whose addresses are optional.

    The first word is a source, unless it is a URI. A further one is a source if it exists and is
    not below a source before it, or if it is a database.

    Raises:
        click.UsageError: there are several addresses, but not `several` allowed.
    """
    found = _before_uris(words)
    for at in range(1, len(found.sources)):
        if _is_address(found.sources[at], found.sources[:at]):
            split = SourceArguments(words[:at], words[at:])
            return split if several else _at_most_one(split)
    return found if several else _at_most_one(found)


def _before_uris(words: Sequence[str]) -> SourceArguments:
    """Split arguments before the first URI."""
    # Imported here: `serve` has no addresses.
    from resource_server.cli import addresses

    for at, word in enumerate(words):
        is_source = sources.is_source(word) if at == 0 else is_database_url(word)
        if addresses.is_uri(word) and not is_source:
            return SourceArguments(words[:at], words[at:])
    return SourceArguments(words, ())


def _at_most_one(found: SourceArguments) -> SourceArguments:
    if len(found.addresses) > 1:
        raise console.usage_error(f"expected one URI, found {len(found.addresses)}")
    return found


def _is_address(word: str, before: Sequence[str]) -> bool:
    """Return whether a word is a path in a source before it.

    Raises:
        click.UsageError: it is also the name of another source.
    """
    if is_database_url(word) or sources.is_database_file(word):
        return False
    is_here = os.path.lexists(word)
    here = pathlib.Path(os.path.realpath(word))
    folders = [pathlib.Path(os.path.realpath(source)) for source in before if _is_folder(source)]
    if is_here and any(here.is_relative_to(folder) for folder in folders):
        return True
    is_there = any(os.path.lexists(folder / word) for folder in folders)
    if is_here and is_there and not word.startswith((".", "/")):
        raise console.usage_error(f"'{word}' is here and in a source; write ./{word}, or the URI")
    return not is_here


def _is_folder(source: str) -> bool:
    return not is_database_url(source) and pathlib.Path(source).is_dir()


def complete_sources(
    _context: click.Context, _option: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Return the completions of a source, for a shell."""
    from resource_server.cli import completion  # here and below: most commands run without a shell

    return completion.sources(incomplete)


def complete_addresses(
    context: click.Context, _option: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Return the completions of an address, or of a source before it, for a shell."""
    from resource_server.cli import completion

    words = context.params.get("words") or context.params.get("named") or ()
    return completion.addresses_in(context, words, incomplete)


def current_timing() -> Timing:
    """Return the times that the command runs with; tests shorten them."""
    return click.get_current_context().find_object(Timing) or DEFAULT_TIMING


def common_options(command: Command) -> Command:
    """Add the options of every command with a source."""
    command = click.option(
        "--no-plugins",
        is_flag=True,
        help="Refuse plugin providers, so that no third-party code runs.",
    )(command)
    return click.option(
        "-v", "--verbose", count=True, help="Log to standard error; -vv logs every detail."
    )(command)


def json_option(command: Command) -> Command:
    """Add the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
