"""What the commands take: `[SOURCE] [URI]...` and the options they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from resource_server.manifest import sources

Command = TypeVar("Command", bound=Callable[..., Any])


def split_source_and_uris(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Take a command's arguments apart: the source may be left out, URIs follow it.

    A first argument that is neither an existing path nor holds `://` is a source as well: a
    misspelt one.
    """
    source: str | None = None
    if arguments and (sources.is_source(arguments[0]) or "://" not in arguments[0]):
        source, *arguments = arguments
    for word in arguments:
        if ":" not in word:
            reason = f"'{word}' is no URI; `resource-server list` shows them"
            raise click.UsageError(reason, click.get_current_context())
    return source, [typed_uri(word) for word in arguments]


def typed_uri(word: str) -> str:
    """Return a URI as it was typed, bytes that are not UTF-8 spelt as URIs spell them."""
    return _UNDECODED.sub(lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", word)


_UNDECODED = re.compile("[\udc80-\udcff]")


def at_most_one_uri(uris: Sequence[str]) -> str | None:
    """Return the URI of a command that takes one or none."""
    if len(uris) > 1:
        raise click.UsageError(f"one URI expected, found {len(uris)}", click.get_current_context())
    return uris[0] if uris else None


def exactly_one_uri(uris: Sequence[str]) -> str:
    """Return the URI of a command that needs one."""
    uri = at_most_one_uri(uris)
    if uri is None:
        reason = "a resource's URI is missing; `resource-server list` shows them"
        raise click.UsageError(reason, click.get_current_context())
    return uri


def common_options(command: Command) -> Command:
    """Add the options that every command with a source takes."""
    command = click.option(
        "--no-plugins",
        is_flag=True,
        help="Refuse providers that are plugins: run no code of others.",
    )(command)
    return click.option(
        "-v", "--verbose", count=True, help="Log what goes on to standard error; -vv: in detail."
    )(command)


def json_option(command: Command) -> Command:
    """Add the option for output that programs read."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )
