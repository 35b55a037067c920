"""Arguments and options that commands share: `[SOURCE]... [URI]...`, `--json`, `--verbose`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from resource_server.runtime.timing import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])


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

    return completion.addresses_in(context, context.params.get("words") or (), incomplete)


def sources_argument(command: Command) -> Command:
    """Add the argument `[SOURCE]...`, the `words` of a command."""
    return click.argument(
        "words", nargs=-1, metavar="[SOURCE]...", shell_complete=complete_sources
    )(command)


def addresses_argument(metavar: str) -> Callable[[Command], Command]:
    """Return what adds sources and addresses in them, the `words` of a command."""
    return click.argument("words", nargs=-1, metavar=metavar, shell_complete=complete_addresses)


def current_timing() -> Timing:
    """Return the times that the command runs with; tests shorten them."""
    context = click.get_current_context(silent=True)
    return (context and context.find_object(Timing)) or DEFAULT_TIMING


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
