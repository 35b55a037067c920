"""Conversions that URIs ask for: a format, parts of a document, options, a range of its text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NoReturn

import msgspec

from resource_server import media_types
from resource_server.conversion import registry
from resource_server.conversion.registry import ConverterEntry, Converters
from resource_server.documents.ranges import PARAMETERS, refuse_unknown, wanted_range
from resource_server.errors import InvalidParameter
from resource_server.provider.conversion import ConversionRequest
from resource_server.runtime.document_range import Range, parse_interval
from resource_server.runtime.extras import operator_hint

FORMAT = "format"
ENCODING = "encoding"
SHEET = "sheet"
ROWS = "rows"
_PAGES = "pages"
"""What the tools call any unit."""
_MAX_OPTION = 1000


class Wanted(msgspec.Struct, frozen=True):
    """A conversion that a URI asks for, and the range of its text."""

    converter: ConverterEntry
    request: ConversionRequest
    range: Range | None = None
    start: Range | None = None
    """Where the text that is wanted begins; None for the parts from the first on."""
    is_picture: bool = False
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The URI parameters of the whole text, as they are given."""


RECODED = Wanted(registry.PLAIN_TEXT, ConversionRequest(media_type="text/plain", format="text"))
"""The text of a document that is in another encoding than the folder's, by a guess."""


def parse_wanted(
    query: Mapping[str, str], media_type: str | None, name: str, converters: Converters
) -> Wanted:
    """Return the conversion that URI parameters ask for of a document of a type and a name.

    Raises:
        InvalidParameter: no such format or parameter; the message names the known ones.
    """
    converter = converters.of(media_type, name)
    if _is_recoding(query, media_type, converter) and converters:
        converter = registry.PLAIN_TEXT
    if converter is None:
        _refuse(query, media_type, converters)
    names = [each.name for each in converter.formats]
    fitting = (each for each in names if not _untaken(query, converter.of(each)))
    format = query.get(FORMAT, next(fitting, names[0]))
    if format in names:
        converter = converter.of(format)
    unit = () if converter.unit is None else (converter.unit,)
    refuse_unknown(_untaken(query, converter), (FORMAT, *unit, *converter.options))
    given = {name: value for name, value in query.items() if name in registry.PARAMETERS}
    given.pop(FORMAT, None)
    if format not in names:
        raise InvalidParameter(f"format cannot be {format[:40]!r}; write {' or '.join(names)}")
    is_picture = format in ("png", "webp")
    first, last = 1, None
    asked = [each for each in dict.fromkeys((*unit, _PAGES)) if each in given]
    if len(asked) > 1:
        raise InvalidParameter(f"give {' or '.join(asked)}, not both")
    for each in asked:
        first, last = parse_interval(each, given.pop(each))
        if is_picture and last != first:
            raise InvalidParameter(f"{format} is one picture at a time; write {each}={first}")
    _check_options(given)
    request = ConversionRequest(
        media_type=converter.inside or media_type or "",
        format=format,
        first=first,
        last=last,
        options=given,
    )
    rest = {each: value for each, value in query.items() if each not in registry.PARAMETERS}
    range = wanted_range(rest)
    if is_picture and range is not None:
        raise InvalidParameter(f"{format} is read whole; leave out {', '.join(rest)}")
    whole = {each: value for each, value in query.items() if each in registry.PARAMETERS}
    return Wanted(converter, request, range, is_picture=is_picture, parameters=whole)


def _refuse(query: Mapping[str, str], media_type: str | None, converters: Converters) -> NoReturn:
    """Refuse parameters of a document that has no converter."""
    missing = converters.missing(media_type)
    if missing and not registry.PARAMETERS.isdisjoint(query):
        raise InvalidParameter(
            f"this server cannot convert the document; {operator_hint('documents')}"
        )
    if converters and FORMAT in query and media_types.is_text(media_type or ""):
        raise InvalidParameter(
            f"format cannot be {query[FORMAT][:40]!r}: this document takes lines, bytes or"
            " tail; format=text guesses its encoding"
        )
    refuse_unknown(query, ())
    raise InvalidParameter("this document has no other format")


def _untaken(query: Mapping[str, str], converter: ConverterEntry) -> Collection[str]:
    """Return the parameters of a query that a converter does not take and that are no ranges."""
    unit = () if converter.unit is None else (converter.unit, _PAGES)
    return query.keys() - PARAMETERS - {FORMAT, *unit, *converter.options}


def _check_options(given: Mapping[str, str]) -> None:
    for option, value in given.items():
        if len(value) > _MAX_OPTION:
            raise InvalidParameter(f"{option} is too long")
        if option == ROWS:
            parse_interval(option, value)


def _is_recoding(
    query: Mapping[str, str], media_type: str | None, converter: ConverterEntry | None
) -> bool:
    """Return whether a URI asks for text in another encoding, of a document that may be text."""
    is_asked = ENCODING in query or query.get(FORMAT) == registry.TEXT.name
    may_be_text = media_type is None or not media_types.is_binary(media_type)
    return is_asked and may_be_text and (converter is None or ENCODING not in converter.options)
