"""Completion of prompt arguments, from their listed values or from the catalog."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from resource_server import uris
from resource_server.catalog.catalog import Catalog, CompletionResult, TemplateEntry
from resource_server.errors import InvalidParameter, ResourceError, ResourceNotFound
from resource_server.manifest.prompts import Prompt, completable_variables
from resource_server.protocol.prompts.rendering import filled_uri
from resource_server.provider import Path, Template
from resource_server.runtime.eager import settle
from resource_server.search.name_match import rank_completions

_NOTHING = CompletionResult((), 0)
_SEGMENT = re.compile(r"\{(\+?[^{}]+)\}")


class VariablePosition(NamedTuple):
    """A variable of a provider's template that another, narrower template ends with.

    The variable of `docs://book/draft/{+file}` is `path` of `docs://book/{+path}`, below `draft`.
    """

    uri_template: str
    variable: str
    given: Mapping[str, str]
    below: Path = ()


async def complete(
    catalog: Catalog, prompt: Prompt, argument: str, value: str, given: Mapping[str, str]
) -> CompletionResult:
    """Suggest values for an argument, by its beginning and the other arguments.

    Raises:
        InvalidParameter: the prompt has no such argument.
        ResourceBusy: the provider of the values cannot serve now.
    """
    if argument not in prompt.arguments:
        raise InvalidParameter("the prompt has no such argument")
    declared = prompt.arguments[argument]
    if declared.complete is None:
        return await _listed(value, declared.enum or declared.examples)
    template = completion_template(prompt, argument, given)
    if template is None:
        return _NOTHING
    position = await variable_position(catalog, template)
    if position is None:
        return await _listed(value, declared.examples)
    return await _from_catalog(catalog, position, value, encoded="{+" in template)


def completion_template(prompt: Prompt, argument: str, given: Mapping[str, str]) -> str | None:
    """Return the template that completes an argument, with the other arguments filled in.

    It ends with the one variable that is left. None if another argument has no value.
    """
    template = prompt.arguments[argument].complete
    if template is None:
        return None
    (variable,) = completable_variables(template, argument, prompt.arguments)
    others = {name: given.get(name) or each.default for name, each in prompt.arguments.items()}
    before, _, expression = template.rpartition("{")
    try:
        start = filled_uri(before, {name: value for name, value in others.items() if value})
    except ResourceNotFound:
        return None
    operator = expression[0] if expression[0] in "+?&" else ""
    return None if start is None else f"{start}{{{operator}{variable}}}"


async def _listed(typed: str, known: Iterable[str]) -> CompletionResult:
    folded = typed.casefold()
    matching = [each for each in known if folded in each.casefold()]
    return CompletionResult(*await settle(rank_completions([typed], matching)))


async def variable_position(catalog: Catalog, template: str) -> VariablePosition | None:
    """Return the position of the variable that ends `template` in a template of the catalog."""
    before, _, expression = template.rpartition("{")
    variable = expression.strip("+?&}")
    try:
        mount, path, _ = catalog.route(before)
    except ResourceError:
        return None
    async for entry in _templates(catalog):
        if entry.mount is mount:
            uri_parameter = variable if expression[0] in "?&" else None
            position = _position(entry, path, uri_parameter)
            if position is not None:
                return position
    return None


async def _templates(catalog: Catalog) -> AsyncIterator[TemplateEntry]:
    page = await catalog.templates()
    while True:
        for entry in page.templates:
            yield entry
        if page.next_cursor is None:
            return
        page = await catalog.templates(page.next_cursor)


def _position(
    entry: TemplateEntry, path: Path, uri_parameter: str | None
) -> VariablePosition | None:
    """Return the position of a URI parameter, or else of the variable that follows `path`."""
    template = entry.uri_template
    before = entry.template.uri_template.partition("?")[0].removesuffix("{")
    match = _match(before.split("/"), path)
    if match is None:
        return None
    given, left, name = match
    if uri_parameter is None:
        return VariablePosition(template, name.removeprefix("+"), given, left) if name else None
    if uri_parameter not in _uri_parameters(entry.template):
        return None
    if left and name:
        return VariablePosition(template, uri_parameter, {**given, name[1:]: "/".join(left)})
    is_whole = name is None and not left
    return VariablePosition(template, uri_parameter, given) if is_whole else None


def _uri_parameters(template: Template) -> Collection[str]:
    """Return the names of the URI parameters that a template has or allows."""
    before, _, query = template.uri_template.partition("?")
    return {*uris.template_variables("{?" * before.endswith("{") + query), *template.optional}


def _match(segments: Sequence[str], path: Path) -> tuple[dict[str, str], Path, str | None] | None:
    """Match a path with the segments of a template; None if it does not match.

    Returns the values of the variables, the rest of the path, and the next variable: `""` if the
    next segment is none, and None at the end of the template.
    """
    given: dict[str, str] = {}
    for index, segment in enumerate(segments):
        match = _SEGMENT.fullmatch(segment)
        name = match[1] if match else ""
        if name[:1] == "+" or index == len(path):
            return given, path[index:], name
        if name:
            given[name] = path[index]
        elif uris.unquote_segment(segment) != path[index]:
            return None
    return given, path[len(segments) :], None


async def _from_catalog(
    catalog: Catalog, position: VariablePosition, typed: str, *, encoded: bool
) -> CompletionResult:
    """Return the catalog's suggestions; `encoded` if values are percent-encoded, as of `{+x}`."""
    if len(typed) > uris.MAX_URI_LENGTH:
        return _NOTHING
    template = position.uri_template
    is_path = uris.template_variables(template).get(position.variable) == "+"
    start = "".join(f"{segment}/" for segment in position.below) if is_path else ""
    meanings = uris.typed_paths(typed) if encoded else (typed,)
    if not is_path:
        meanings = [uris.display(text) for text in meanings[:1]]
    found = await catalog.suggest(
        template, position.variable, [start + text for text in meanings], position.given
    )
    start = uris.plain_path(start)
    values = [_value(each, start, is_path=is_path, encoded=encoded) for each in found.values]
    usable = [value for value in values if value]
    return CompletionResult(usable, found.total if len(usable) == len(values) else len(usable))


def _value(suggested: str, start: str, *, is_path: bool, encoded: bool) -> str | None:
    """Return the value for a suggestion; None if the narrower template cannot express it."""
    if not is_path:
        return uris.plain_path(suggested).replace("/", "%2F") if encoded else suggested
    if not suggested.startswith(start):
        return None
    rest = suggested[len(start) :]
    if encoded:
        return rest
    segment = uris.unquote_segment(rest.removesuffix("/"))
    # Not several segments, and no bytes that an argument cannot carry.
    return None if "/" in segment or segment != uris.display(segment) else segment
