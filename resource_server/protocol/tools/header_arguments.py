"""Arguments that clients repeat in HTTP headers (`x-mcp-header`), for who routes requests by them.

They do from 2026-07-28 on (SEP-2243). Whoever stands between a client and the server decides by the
header, and the tool does what its argument says: so both have to say the same.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from resource_server.errors import ResourceServerError
from resource_server.protocol import error_mapping
from resource_server.protocol.message import Header
from resource_server.provider.tools import Schema

_ANNOTATION = "x-mcp-header"
_TYPES = ("string", "integer", "boolean")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_PLAIN = re.compile(r"[\t\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_WHOLE = re.compile(r"(-?[0-9]{1,20})(\.0+)?")


class Mirrored:
    """Which arguments of a tool are repeated, by the last part of the name of their header."""

    def __init__(self, schema: Schema) -> None:
        """Take a valid schema of arguments.

        Raises:
            ResourceServerError: clients leave such a tool out, for where or how it names a header.
        """
        self._paths: dict[str, Sequence[str]] = {}
        for name, path, kind in _named(schema, ()):
            where = f"input_schema: {'.'.join(path)}: {_ANNOTATION}"
            if not isinstance(name, str) or not _TOKEN.fullmatch(name):
                raise ResourceServerError(f"{where}: expected the part of an HTTP header's name")
            if kind not in _TYPES:
                raise ResourceServerError(f"{where}: expected the type {', '.join(_TYPES)}")
            if name.lower() in map(str.lower, self._paths):
                raise ResourceServerError(f"{where}: {name!r} is named twice")
            self._paths[name] = path
        if _mentions(schema) > len(self._paths):
            reason = "only properties of properties can be repeated in headers"
            raise ResourceServerError(f"input_schema: {_ANNOTATION}: {reason}")

    def check(self, arguments: Mapping[str, Any], header: Header) -> None:
        """Refuse arguments of which headers say something else.

        Raises:
            Fault: names the first.
        """
        for name, path in self._paths.items():
            if not _is_said(header(f"mcp-param-{name.lower()}".encode()), _at(arguments, path)):
                what = f"the argument '{'.'.join(path)}'"
                raise error_mapping.header_mismatch(f"Mcp-Param-{name}", what)


def decoded(value: str) -> str:
    """Return what a header says that may be written in base64.

    Raises:
        ValueError: it is not written right.
    """
    if not _PLAIN.fullmatch(value):
        raise ValueError
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        data = b64decode(match[1], validate=True)
    except binascii.Error:
        raise ValueError from None
    if b64encode(data).decode() != match[1]:
        raise ValueError
    return data.decode()


def _named(schema: Schema, path: Sequence[str]) -> Iterator[tuple[object, Sequence[str], object]]:
    """Yield each name with the way to its property, and that one's type."""
    for name, each in schema.get("properties", {}).items():
        if isinstance(each, Mapping):
            part, way = cast("Schema", each), (*path, name)
            if _ANNOTATION in part:
                yield part[_ANNOTATION], way, part.get("type")
            yield from _named(part, way)


def _mentions(part: object) -> int:
    """Return how often a header is named, wherever that is."""
    if isinstance(part, Mapping):
        members = cast("Mapping[str, object]", part)
        here = isinstance(members.get(_ANNOTATION), str)
        return here + sum(map(_mentions, members.values()))
    if isinstance(part, list | tuple):
        return sum(map(_mentions, cast("Sequence[object]", part)))
    return 0


def _at(arguments: Mapping[str, Any], path: Sequence[str]) -> object:
    value: object = arguments
    for name in path:
        value = cast("Mapping[str, object]", value).get(name) if isinstance(value, dict) else None
    return value


def _is_said(said: str | None, value: object) -> bool:
    if value is None:
        return said is None
    if not isinstance(value, str | int | float):
        return True  # No client can repeat it; the schema refuses it.
    try:
        text = None if said is None else decoded(said)
    except ValueError:
        return False
    if text is None or isinstance(value, str):
        return text == value
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    whole = _WHOLE.fullmatch(text)
    return whole is not None and int(whole[1]) == value
