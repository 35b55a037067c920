"""Arguments of a provider's tool, checked by its JSON Schema (2020-12) in bounded time.

A schema is its author's, and arguments are anybody's. So regular expressions run in an engine that
cannot be made to backtrack, nothing is fetched, and the whole check stops after a while.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from typing import Any, cast

import msgspec

from resource_server import uris
from resource_server.errors import ResourceServerError, ToolFailed
from resource_server.protocol.tools.header_arguments import Mirrored
from resource_server.provider.tools import Schema, Tool

MAX_SCHEMA_BYTES = 64 * 1024
LONGEST_S = 0.25

_MOST_PROBLEMS = 5
_LONGEST_PROBLEM = 200
_UNBOUNDED = "patternProperties"
_REGEXP = "pattern"

_encode = msgspec.json.Encoder(order="sorted").encode
_until: ContextVar[float] = ContextVar("until", default=float("inf"))


class Arguments:
    """What the arguments of one tool have to be."""

    def __init__(self, tool: Tool) -> None:
        """Take the schemas of a tool. Imports what checks them, which takes a while.

        Raises:
            ResourceServerError: they are none, or not such as clients and the server can use.
        """
        _check_schema(tool.input_schema, "input_schema")
        if tool.output_schema is not None:
            _check_schema(tool.output_schema, "output_schema")
        self.schema = tool.input_schema
        self.mirrored = Mirrored(tool.input_schema)
        self._validator = _validator(tool.input_schema)

    def missing(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the names of those that are required and not there."""
        return [name for name in self.schema.get("required", ()) if name not in arguments]

    def check(self, arguments: Mapping[str, Any], *, are_all: bool = True) -> None:
        """Refuse arguments that are not as the schema has them; others may be `missing`.

        Raises:
            ToolFailed: says what is wrong with each.
        """
        token = _until.set(time.monotonic() + LONGEST_S)
        try:
            found = _problems(self._validator, arguments, are_all=are_all)
        except (_TooLong, RecursionError):
            raise ToolFailed("Invalid arguments: they take too long to check") from None
        finally:
            _until.reset(token)
        if found:
            raise ToolFailed(f"Invalid arguments: {'; '.join(found)}")


class _TooLong(Exception):
    pass


def problems(schema: Schema, value: object) -> Sequence[str]:
    """Return what is wrong with a value, by its schema; takes as long as it takes."""
    return _problems(_validator(schema), value)


def _problems(validator: Any, value: object, *, are_all: bool = True) -> Sequence[str]:
    found: Iterator[Any] = validator.iter_errors(value)
    counting = (each for each in found if are_all or each.validator != "required" or each.path)
    return [_problem(error) for error in islice(counting, _MOST_PROBLEMS)]


def _problem(error: Any) -> str:
    path = ".".join(map(str, error.absolute_path))
    text = uris.display(str(error.message))
    if error.validator == "additionalProperties" and not path:
        text += f"; known: {', '.join(error.schema.get('properties', ())) or 'none'}"
    if len(text) > _LONGEST_PROBLEM:
        # What was found comes first, and then what is wrong with it.
        text = f"{text[: _LONGEST_PROBLEM // 2]} … {text[-_LONGEST_PROBLEM // 2 :]}"
    return f"{path}: {text}" if path else text


def _check_schema(schema: Schema, where: str) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        encoded = _encode(schema)
    except (TypeError, ValueError, RecursionError):
        raise ResourceServerError(f"{where}: not JSON") from None
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise ResourceServerError(f"{where}: longer than {MAX_SCHEMA_BYTES} bytes")
    try:
        Draft202012Validator.check_schema(schema)
        _check_parts(schema, where)
    except SchemaError as error:
        raise ResourceServerError(f"{where}: {_problem(error)}") from None
    except RecursionError:
        raise ResourceServerError(f"{where}: nested too deeply") from None
    if schema.get("type", "object") != "object":
        raise ResourceServerError(f"{where}: expected the type 'object'")


def _check_parts(part: object, where: str) -> None:
    """Refuse what cannot be checked in bounded time."""
    if isinstance(part, Mapping):
        for key, value in cast("Mapping[str, object]", part).items():
            if key == _UNBOUNDED:
                raise ResourceServerError(f"{where}: 'patternProperties' is not supported")
            if key == _REGEXP and isinstance(value, str):
                _compiled(value, where)
            if key == "$ref" and isinstance(value, str) and not value.startswith("#"):
                raise ResourceServerError(f"{where}: '$ref' leads outside of the schema")
            _check_parts(value, where)
    elif isinstance(part, list | tuple):
        for value in cast("list[object]", part):
            _check_parts(value, where)


def _compiled(pattern: str, where: str) -> Any:
    try:
        # Imported here, and no part of every installation: few schemas have patterns.
        import re2  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise ResourceServerError(
            f"{where}: to check a 'pattern' the server needs resource-server[regex]"
        ) from None
    engine: Any = re2
    options = engine.Options()
    options.log_errors = False
    try:
        return engine.compile(pattern, options)
    except engine.error:
        raise ResourceServerError(f"{where}: RE2 has no pattern {pattern[:80]!r}") from None


def _validator(schema: Schema) -> Any:
    from referencing import jsonschema

    # By itself it would fetch what a `$ref` names.
    registry: Any = jsonschema.EMPTY_REGISTRY
    return _draft()(schema, registry=registry)


@functools.cache
def _draft() -> Any:
    """Return the validator of the draft, with what takes unbounded time replaced."""
    from jsonschema import Draft202012Validator, validators

    keywords: dict[str, Callable[..., Iterator[Any] | None]] = {
        **Draft202012Validator.VALIDATORS,
        _REGEXP: _pattern,
        "uniqueItems": _unique_items,
    }
    timed = {name: _timed(check) for name, check in keywords.items()}
    extend: Any = getattr(validators, "extend")  # noqa: B009 - typed in part only
    return extend(Draft202012Validator, timed)


def _timed(check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any]]:
    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if time.monotonic() > _until.get():
            raise _TooLong
        yield from check(validator, value, instance, schema) or ()

    return checked


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(instance, str) and _compiled(pattern, "").search(instance) is None:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique_items(_validator: Any, unique: bool, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if unique and isinstance(instance, list):
        items = cast("list[object]", instance)
        if len({_encode(_canonical(item)) for item in items}) < len(items):
            yield ValidationError("it has the same item twice")


def _canonical(value: object) -> object:
    """Return a value whose numbers are written alike where they are the same."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _canonical(each) for key, each in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list):
        return [_canonical(each) for each in cast("list[object]", value)]
    return value
