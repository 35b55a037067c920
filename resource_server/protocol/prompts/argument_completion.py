"""What the arguments of prompts may be, as far as typed: of a list, or of what the catalog has."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

from resource_server import uris
from resource_server.catalog import completion
from resource_server.catalog.catalog import Catalog, CompletionResult, TemplateEntry
from resource_server.errors import InvalidParameter, ResourceError, ResourceNotFound
from resource_server.manifest.prompts import Prompt, completable_variables
from resource_server.protocol.prompts.messages import filled_uri
from resource_server.provider import Path
from resource_server.runtime.eager import settle

_NOTHING = CompletionResult((), 0)
_SEGMENT = re.compile(r"\{(\+?[^{}]+)\}")


class Place(NamedTuple):
    """Where in a provider's template the variable of another one stands, which is narrower.

    That of `docs://book/draft/{+file}` is `path` of `docs://book/{+path}`, below `draft`.
    """

    uri_template: str
    variable: str
    given: Mapping[str, str]
    below: Path = ()


async def complete(
    catalog: Catalog, prompt: Prompt, argument: str, value: str, given: Mapping[str, str]
) -> CompletionResult:
    """Suggest values of an argument that fit what has been typed, and the others that are given.

    Raises:
        InvalidParameter: the prompt has no such argument.
        ResourceBusy: what has the values cannot serve now.
    """
    if argument not in prompt.arguments:
        raise InvalidParameter("the prompt has no such argument")
    shape = prompt.arguments[argument]
    if shape.complete is None:
        return await _listed(value, shape.enum or shape.examples)
    template = template_of(prompt, argument, given)
    if template is None:
        return _NOTHING
    place = await place_of(catalog, template)
    if place is None:
        return await _listed(value, shape.examples)
    return await _completed(catalog, place, value, encoded="{+" in template)


def template_of(prompt: Prompt, argument: str, given: Mapping[str, str]) -> str | None:
    """Return what an argument completes, with the others filled in; None where a value is missing.

    What is left to complete is one variable at its end.
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
    fitting = [each for each in known if folded in each.casefold()]
    return CompletionResult(*await settle(completion.ranked(typed, fitting)))


async def place_of(catalog: Catalog, template: str) -> Place | None:
    """Return where the one variable of a template, at its end, stands in one of the catalog's."""
    before, _, expression = template.rpartition("{")
    variable = expression.strip("+?&}")
    try:
        mount, path, _ = catalog.route(before)
    except ResourceError:
        return None
    async for entry in _templates(catalog):
        if entry.mount is mount:
            asked = variable if expression[0] in "?&" else None
            place = _place(entry, path, asked)
            if place is not None:
                return place
    return None


async def _templates(catalog: Catalog) -> AsyncIterator[TemplateEntry]:
    page = await catalog.templates()
    while True:
        for entry in page.templates:
            yield entry
        if page.next_cursor is None:
            return
        page = await catalog.templates(page.next_cursor)


def _place(entry: TemplateEntry, path: Path, asked: str | None) -> Place | None:
    """Return where what follows `path` stands in a template, or else the query variable asked."""
    bound = _bound(entry.template.uri_template.partition("{?")[0].split("/"), path)
    if bound is None:
        return None
    given, left, name = bound
    if asked is None:
        return Place(entry.uri_template, name.removeprefix("+"), given, left) if name else None
    if uris.template_variables(entry.uri_template).get(asked) not in ("?", "&"):
        return None
    if left and name:
        return Place(entry.uri_template, asked, {**given, name[1:]: "/".join(left)})
    return Place(entry.uri_template, asked, given) if name is None and not left else None


def _bound(segments: Sequence[str], path: Path) -> tuple[dict[str, str], Path, str | None] | None:
    """Return what variables stand for, what is left of the path, and which one comes next.

    That is `""` if it is no variable, and None at the end. All is None where the path does not fit.
    """
    given: dict[str, str] = {}
    for at, segment in enumerate(segments):
        match = _SEGMENT.fullmatch(segment)
        name = match[1] if match else ""
        if name[:1] == "+" or at == len(path):
            return given, path[at:], name
        if name:
            given[name] = path[at]
        elif uris.unquote_segment(segment) != path[at]:
            return None
    return given, path[len(segments) :], None


async def _completed(
    catalog: Catalog, place: Place, typed: str, *, encoded: bool
) -> CompletionResult:
    """Return what the catalog suggests; `encoded` where values are, as those of `{+x}`."""
    if len(typed) > uris.MAX_URI_LENGTH:
        return _NOTHING
    template = place.uri_template
    of_path = uris.template_variables(template)[place.variable] == "+"
    start = "".join(f"{uris.quote_segment(segment)}/" for segment in place.below)
    if of_path:
        typed = start + (typed if encoded else uris.quote_segment(typed))
    elif encoded:
        typed = uris.display(uris.unquote_path(typed))
    found = await catalog.complete(template, place.variable, typed, place.given)
    values = [_value(each, start, of_path=of_path, encoded=encoded) for each in found.values]
    kept = [value for value in values if value]
    return CompletionResult(kept, found.total if len(kept) == len(values) else len(kept))


def _value(found: str, start: str, *, of_path: bool, encoded: bool) -> str | None:
    """Return what to fill in for a suggestion; None for one that the place does not take."""
    if not of_path:
        return uris.quote_segment(found) if encoded else found
    if not found.startswith(start):
        return None
    rest = found[len(start) :]
    if encoded:
        return rest
    segment = uris.unquote_segment(rest.removesuffix("/"))
    # One of several segments, or with bytes that no argument can carry.
    return None if "/" in segment or segment != uris.display(segment) else segment
