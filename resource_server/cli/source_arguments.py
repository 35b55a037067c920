"""Arguments and options that commands share: `[SOURCE] [URI]...`, `--json`, `--verbose`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from resource_server.manifest import sources
from resource_server.runtime.timing import DEFAULT_TIMING, Timing

Command = TypeVar("Command", bound=Callable[..., Any])


def split_source_and_uris(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Split a command's arguments into the optional source and the URIs.

    A first argument without `://` that does not exist counts as a misspelt source.
    """
    source: str | None = None
    if arguments and (sources.is_source(arguments[0]) or "://" not in arguments[0]):
        source, *arguments = arguments
    for word in arguments:
        if ":" not in word:
            reason = f"'{word}' is not a URI; `resource-server list` prints URIs"
            raise click.UsageError(reason, click.get_current_context())
    return source, [typed_uri(word) for word in arguments]


def typed_uri(word: str) -> str:
    """Return a typed URI with bytes that are not UTF-8 percent-encoded."""
    return _UNDECODED.sub(lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", word)


_UNDECODED = re.compile("[\udc80-\udcff]")


def at_most_one_uri(uris: Sequence[str]) -> str | None:
    """Return the only URI, or None.

    Raises:
        click.UsageError: there are several.
    """
    if len(uris) > 1:
        raise click.UsageError(f"expected one URI, found {len(uris)}", click.get_current_context())
    return uris[0] if uris else None


def exactly_one_uri(uris: Sequence[str]) -> str:
    """Return the only URI.

    Raises:
        click.UsageError: there is none, or there are several.
    """
    uri = at_most_one_uri(uris)
    if uri is None:
        reason = "the URI of a resource is missing; `resource-server list` prints URIs"
        raise click.UsageError(reason, click.get_current_context())
    return uri


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
