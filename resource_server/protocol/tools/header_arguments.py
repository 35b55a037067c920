"""Tool arguments that clients repeat in HTTP headers (`x-mcp-header`), for routing proxies.

Clients do so from 2026-07-28 on (SEP-2243). A proxy decides by the header and the tool acts on the
argument, so both must be equal.
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


class HeaderArguments:
    """The arguments of a tool that headers repeat, by the last part of the header's name."""

    def __init__(self, schema: Schema) -> None:
        """Collect them from a valid schema of arguments.

        Raises:
            ResourceServerError: clients ignore a tool that names a header like this.
        """
        self._paths: dict[str, Sequence[str]] = {}
        for name, path, json_type in _marked(schema, ()):
            where = f"input_schema: {'.'.join(path)}: {_ANNOTATION}"
            if not isinstance(name, str) or not _TOKEN.fullmatch(name):
                raise ResourceServerError(f"{where}: expected the part of an HTTP header's name")
            if json_type not in _TYPES:
                raise ResourceServerError(f"{where}: expected the type {', '.join(_TYPES)}")
            if name.lower() in map(str.lower, self._paths):
                raise ResourceServerError(f"{where}: {name!r} is named twice")
            self._paths[name] = path
        if _mentions(schema) > len(self._paths):
            reason = "only properties of properties can be repeated in headers"
            raise ResourceServerError(f"input_schema: {_ANNOTATION}: {reason}")

    def check(self, arguments: Mapping[str, Any], header: Header) -> None:
        """Check that the headers repeat the arguments.

        Raises:
            Fault: names the first header that differs.
        """
        for name, path in self._paths.items():
            if not _is_equal(header(f"mcp-param-{name.lower()}".encode()), _at(arguments, path)):
                what = f"the argument '{'.'.join(path)}'"
                raise error_mapping.header_mismatch(f"Mcp-Param-{name}", what)


def decode_header(value: str) -> str:
    """Return the value of a header, which may be plain or in base64.

    Raises:
        ValueError: the encoding is invalid.
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


def _marked(schema: Schema, path: Sequence[str]) -> Iterator[tuple[object, Sequence[str], object]]:
    """Yield the header name, path and type of each annotated property."""
    for name, each in schema.get("properties", {}).items():
        if isinstance(each, Mapping):
            part, part_path = cast("Schema", each), (*path, name)
            if _ANNOTATION in part:
                yield part[_ANNOTATION], part_path, part.get("type")
            yield from _marked(part, part_path)


def _mentions(part: object) -> int:
    """Return the number of annotations anywhere in a schema."""
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


def _is_equal(header_value: str | None, argument: object) -> bool:
    if argument is None:
        return header_value is None
    if not isinstance(argument, str | int | float):
        return True  # no client can repeat it, and the schema refuses it
    try:
        text = None if header_value is None else decode_header(header_value)
    except ValueError:
        return False
    if text is None or isinstance(argument, str):
        return text == argument
    if isinstance(argument, bool):
        return text == ("true" if argument else "false")
    whole = _WHOLE.fullmatch(text)
    return whole is not None and int(whole[1]) == argument
