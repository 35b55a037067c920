"""Validation of tool arguments against JSON Schema (2020-12), in bounded time.

Schemas come from plugin authors, arguments from anybody. So regular expressions run in an engine
that never backtracks, no `$ref` is fetched, and the whole validation has a timeout.
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
from resource_server.protocol.tools.header_arguments import HeaderArguments
from resource_server.provider.tools import Schema, Tool
from resource_server.runtime import extras

MAX_SCHEMA_BYTES = 64 * 1024
"""Maximum bytes of a tool's schema as JSON."""
TIMEOUT_S = 0.25
"""Maximum seconds of one validation."""

_MAX_PROBLEMS = 5
_MAX_PROBLEM_CHARACTERS = 200
_UNSUPPORTED = "patternProperties"
_PATTERN = "pattern"

_encode = msgspec.json.Encoder(order="sorted").encode
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))


class ArgumentsValidator:
    """Validates the arguments of one tool."""

    def __init__(self, tool: Tool) -> None:
        """Check the schemas of a tool. Imports the validator, which is slow.

        Raises:
            ResourceServerError: a schema is invalid, or uses what clients or the server cannot.
        """
        _check_schema(tool.input_schema, "input_schema")
        if tool.output_schema is not None:
            _check_schema(tool.output_schema, "output_schema")
        self.schema = tool.input_schema
        self.header_arguments = HeaderArguments(tool.input_schema)
        self._validator = _validator(tool.input_schema)

    def missing(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the names of the required arguments that are missing."""
        return [name for name in self.schema.get("required", ()) if name not in arguments]

    def check(self, arguments: Mapping[str, Any], *, are_all: bool = True) -> None:
        """Check arguments against the schema; unless `are_all`, required ones may be missing.

        Raises:
            ToolFailed: with the problem of each invalid argument.
        """
        token = _deadline.set(time.monotonic() + TIMEOUT_S)
        try:
            found = _problems(self._validator, arguments, are_all=are_all)
        except (_TimedOut, RecursionError):
            raise ToolFailed("Invalid arguments: they take too long to check") from None
        finally:
            _deadline.reset(token)
        if found:
            raise ToolFailed(f"Invalid arguments: {'; '.join(found)}")


class _TimedOut(Exception):
    pass


def schema_problems(schema: Schema, value: object) -> Sequence[str]:
    """Return the problems of a value by its schema, without a timeout."""
    return _problems(_validator(schema), value)


def _problems(validator: Any, value: object, *, are_all: bool = True) -> Sequence[str]:
    found: Iterator[Any] = validator.iter_errors(value)
    relevant = (each for each in found if are_all or each.validator != "required" or each.path)
    try:
        return [_problem(error) for error in islice(relevant, _MAX_PROBLEMS)]
    except ArithmeticError:
        return ["a number is too large to check"]


def _problem(error: Any) -> str:
    path = ".".join(map(str, error.absolute_path))
    text = uris.display(str(error.message))
    if error.validator == "additionalProperties" and not path:
        text += f"; known: {', '.join(error.schema.get('properties', ())) or 'none'}"
    if len(text) > _MAX_PROBLEM_CHARACTERS:
        # The value comes first, and the problem last.
        text = f"{text[: _MAX_PROBLEM_CHARACTERS // 2]} … {text[-_MAX_PROBLEM_CHARACTERS // 2 :]}"
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
    """Refuse keywords that cannot be checked in bounded time."""
    if isinstance(part, Mapping):
        for key, value in cast("Mapping[str, object]", part).items():
            if key == _UNSUPPORTED:
                raise ResourceServerError(f"{where}: 'patternProperties' is not supported")
            if key == _PATTERN and isinstance(value, str):
                _compiled(value, where)
            if key == "$ref" and isinstance(value, str) and not value.startswith("#"):
                raise ResourceServerError(f"{where}: '$ref' leads outside of the schema")
            _check_parts(value, where)
    elif isinstance(part, list | tuple):
        for value in cast("list[object]", part):
            _check_parts(value, where)


def _compiled(pattern: str, where: str) -> Any:
    try:
        # Imported here: an optional dependency that few schemas need.
        import re2  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise extras.MissingExtra(f"{where}: checking a 'pattern'", "regex") from None
    engine: Any = re2
    options = engine.Options()
    options.log_errors = False
    try:
        return engine.compile(pattern, options)
    except engine.error:
        raise ResourceServerError(f"{where}: RE2 has no pattern {pattern[:80]!r}") from None


def _validator(schema: Schema) -> Any:
    from referencing import jsonschema

    # The default registry would fetch a remote `$ref`.
    registry: Any = jsonschema.EMPTY_REGISTRY
    return _draft()(schema, registry=registry)


@functools.cache
def _draft() -> Any:
    """Return the validator class of the draft, with its unbounded keywords replaced."""
    from jsonschema import Draft202012Validator, validators

    keywords: dict[str, Callable[..., Iterator[Any] | None]] = {
        **Draft202012Validator.VALIDATORS,
        _PATTERN: _pattern,
        "uniqueItems": _unique_items,
    }
    limited = {name: _timed(check) for name, check in keywords.items()}
    extend: Any = getattr(validators, "extend")  # noqa: B009 - only partially typed
    return extend(Draft202012Validator, limited)


def _timed(check: Callable[..., Iterator[Any] | None]) -> Callable[..., Iterator[Any]]:
    def timed(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if time.monotonic() > _deadline.get():
            raise _TimedOut
        yield from check(validator, value, instance, schema) or ()

    return timed


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
    """Return a value in which equal numbers have the same encoding."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _canonical(each) for key, each in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list):
        return [_canonical(each) for each in cast("list[object]", value)]
    return value
