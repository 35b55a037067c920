"""What the commands take: `[SOURCE] [URI]...` and the options they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from resource_server.manifest import sources

Command = TypeVar("Command", bound=Callable[..., Any])


def source_and_uris(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take a command's arguments apart: the source may be left out, URIs follow it.

    What is neither an existing path nor holds `://` is a source as well: a misspelt one.
    """
    if not arguments:
        return None, []
    first = arguments[0]
    if sources.is_source(first) or "://" not in first:
        return first, list(arguments[1:])
    return None, list(arguments)


def at_most_one(uris: Sequence[str]) -> str | None:
    """Return the URI of a command that takes one or none."""
    if len(uris) > 1:
        raise click.UsageError(f"one URI expected, found {len(uris)}", click.get_current_context())
    return uris[0] if uris else None


def exactly_one(uris: Sequence[str]) -> str:
    """Return the URI of a command that needs one."""
    uri = at_most_one(uris)
    if uri is None:
        reason = "a resource's URI is missing; `resource-server list` shows them"
        raise click.UsageError(reason, click.get_current_context())
    return uri


def shared(command: Command) -> Command:
    """Add the options that every command with a source takes."""
    command = click.option(
        "--no-plugins",
        is_flag=True,
        help="Refuse providers that are plugins: run no code of others.",
    )(command)
    return click.option(
        "-v", "--verbose", count=True, help="Log what goes on to standard error; -vv: in detail."
    )(command)


def as_json(command: Command) -> Command:
    """Add the option for output that programs read."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )
