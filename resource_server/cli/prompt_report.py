"""Report of one prompt for the operator: its arguments, and references that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from resource_server import uris
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import FAILURES, log_failure
from resource_server.cli import console
from resource_server.errors import Diagnostic, ResourceBusy, ResourceError
from resource_server.manifest import Positions
from resource_server.manifest.data import DataPath, dotted
from resource_server.manifest.prompts import Prompt
from resource_server.protocol.prompts.argument_completion import (
    completion_template,
    variable_position,
)
from resource_server.protocol.prompts.rendering import filled_uri
from resource_server.runtime.eager import is_cancelled


class PromptReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The report of one prompt."""

    name: str
    title: str | None = None
    arguments: Sequence[str] = ()
    required: Sequence[str] = ()
    """The required arguments."""
    mistakes: Sequence[str] = ()
    """References that fail, each with its position in the manifest."""


async def report_prompt(
    catalog: Catalog, name: str, prompt: Prompt, positions: Positions
) -> PromptReport:
    """Return the report of a prompt; the catalog's mounts must be started."""
    mistakes = [
        str(Diagnostic(positions.file, *positions.value(at), dotted(at), uris.display(text)))
        async for at, text in _mistakes(catalog, ("prompts", name), prompt)
    ]
    return PromptReport(
        name=name,
        title=prompt.title,
        arguments=list(prompt.arguments),
        required=[name for name, each in prompt.arguments.items() if each.required],
        mistakes=mistakes,
    )


async def _mistakes(
    catalog: Catalog, path: DataPath, prompt: Prompt
) -> AsyncIterator[tuple[DataPath, str]]:
    for name in prompt.arguments:
        template = completion_template(prompt, name, {})
        if template is not None and await _fits_nothing(catalog, template):
            at = (*path, "arguments", name, "complete")
            yield at, "matches no template of its mount, so nothing is suggested"
    defaults = {name: each.default for name, each in prompt.arguments.items() if each.default}
    for number, message in enumerate(prompt.messages):
        uri = None if message.resource is None else filled_uri(message.resource, defaults)
        problem = None if uri is None else await _problem(catalog, uri)
        if problem is not None:
            yield (*path, "messages", number, "resource"), f"{problem}: {uri}"


async def _fits_nothing(catalog: Catalog, template: str) -> bool:
    try:
        mount, *_ = catalog.route(template.partition("{")[0])
    except ResourceError:
        return True
    return mount.problem is None and await variable_position(catalog, template) is None


async def _problem(catalog: Catalog, uri: str) -> str | None:
    """Return why a resource cannot be read; None if it can, or if its mount is unavailable."""
    try:
        await catalog.read(uri)
    except ResourceBusy:
        return None
    except ResourceError as error:
        return str(error)
    except (*FAILURES, asyncio.CancelledError) as error:  # the code of a plugin
        if is_cancelled():
            raise
        log_failure(error, "reading a resource of a prompt")
        return "cannot be read; -v shows why"
    return None


def print_prompt_report(report: PromptReport) -> None:
    """Print a report as text."""
    console.print_line(f"{console.emphasised(report.name)}  prompt")
    console.print_fields((f"  {name}", value) for name, value in _facts(report))


def _facts(report: PromptReport) -> Iterator[tuple[str, str]]:
    yield "title", console.escaped(report.title or "")
    asked = [f"{name} (required)" if name in report.required else name for name in report.arguments]
    yield "arguments", ", ".join(asked)
    for mistake in report.mistakes:
        yield "mistake", mistake
