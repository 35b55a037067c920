"""Typed options of a class: names, annotations, defaults and descriptions.

Options are a dataclass's fields, a msgspec Struct's fields, or a plain class's constructor
parameters. Names that begin with an underscore are private to the class.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import pathlib
import textwrap
import types
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from collections.abc import Set as AbstractSet
from typing import (
    Annotated,
    Any,
    Literal,
    TypeGuard,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from resource_server.provider import ByteSize
from resource_server.runtime.option_types import Duration, Rate

MISSING: Any = dataclasses.MISSING


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One option; a required one has `MISSING` as its default."""

    name: str
    annotation: Any
    default: Any = MISSING


def has_options(annotation: object) -> TypeGuard[type[Any]]:
    """Return whether a type is decoded from a mapping of options: a plain dataclass or a Struct."""
    if not isinstance(annotation, type):
        return False
    if dataclasses.is_dataclass(annotation):
        # pydantic's own dataclasses and models validate themselves.
        return not hasattr(annotation, "__pydantic_validator__")
    return issubclass(annotation, msgspec.Struct)


def options_of(cls: type) -> dict[str, Option]:
    """Return the options of a class by name, in order.

    Raises:
        NameError, TypeError: the annotations cannot be resolved.
    """
    options = _signature(cls) if not has_options(cls) else _fields(cls)
    return {option.name: option for option in options if not option.name.startswith("_")}


def _fields(cls: type) -> Iterator[Option]:
    # Only nested types as namespace: the contract's method `list` would hide the built-in type.
    nested = {name: value for name, value in vars(cls).items() if isinstance(value, type)}
    hints = get_type_hints(cls, localns=nested, include_extras=True)
    if issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            yield Option(field.name, hints[field.name], _default(field, msgspec.NODEFAULT))
    else:
        for field in dataclasses.fields(cast("Any", cls)):
            if field.init:
                yield Option(field.name, hints[field.name], _default(field, MISSING))


def _default(field: Any, missing: object) -> Any:
    if field.default_factory is not missing:
        return field.default_factory()
    return MISSING if field.default is missing else field.default


def _signature(cls: type) -> Iterator[Option]:
    hints = get_type_hints(cls.__init__, include_extras=True)
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            default = MISSING if parameter.default is parameter.empty else parameter.default
            yield Option(name, hints.get(name, Any), default)


def descriptions(cls: type) -> dict[str, str]:
    """Return the descriptions of a class's options: the string below each field, on one line."""
    found: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(parent)))
        except (OSError, TypeError, SyntaxError):
            continue  # built in, or without source
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found.update(_strings_below_fields(node))
    return found


def _strings_below_fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())
            case _:
                pass


_LISTS: dict[Any, Callable[[Iterable[Any]], Any]] = {
    list: list,
    MutableSequence: list,
    tuple: tuple,
    Sequence: tuple,
    Collection: tuple,
    Iterable: tuple,
    set: set,
    frozenset: frozenset,
    AbstractSet: frozenset,
}
_MAPPINGS = (dict, Mapping, MutableMapping)
_WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    ByteSize: "a size such as 64KiB",
    Duration: "a time such as 250ms or 2s",
    Rate: "a rate such as 200/s",
}


def unwrap_annotated(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return an annotation without `Annotated`, and its metadata."""
    # A `type Name = ...` statement (Python 3.12) makes an object that wraps the type.
    annotation = getattr(annotation, "__value__", annotation)
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return inner, tuple(metadata)
    return annotation, ()


def union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union; any other type is its own only member."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def literal_values(annotation: Any) -> tuple[Any, ...]:
    """Return the values of a `Literal`; empty for other types."""
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def mapping_types(annotation: Any) -> tuple[Any, Any] | None:
    """Return the types of a mapping's keys and values; None for other types."""
    if annotation in _MAPPINGS:
        return str, Any
    if get_origin(annotation) not in _MAPPINGS:
        return None
    key, value = get_args(annotation)
    return key, value


def list_factory(annotation: Any) -> Callable[[Iterable[Any]], Any] | None:
    """Return the constructor of a list-like type; None for other types."""
    try:
        return _LISTS.get(get_origin(annotation) or annotation)
    except TypeError:  # unhashable, so not in the table
        return None


def item_types(annotation: Any, length: int) -> tuple[Any, ...]:
    """Return the type of each item of a list; a tuple of fixed length has its own number."""
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple and arguments[-1:] != (...,):
        return arguments
    return (arguments[0] if arguments else Any,) * length


def is_path_type(annotation: Any) -> bool:
    """Return whether a type is a file system path."""
    return isinstance(annotation, type) and issubclass(annotation, pathlib.PurePath)


def described_type(annotation: Any) -> str:
    """Return a type in words: `text or a list`, `one of a, b`."""
    annotation, _ = unwrap_annotated(annotation)
    members = [arm for arm in union_members(annotation) if arm not in (None, types.NoneType)]
    if len(members) > 1:
        return " or ".join(dict.fromkeys(described_type(arm) for arm in members))
    if len(members) == 1 and members[0] is not annotation:
        return described_type(members[0])
    if values := literal_values(annotation):
        words = ", ".join(
            json.dumps(each) if isinstance(each, bool) else str(each) for each in values
        )
        return f"one of {words}" if len(values) > 1 else words
    if has_options(annotation) or mapping_types(annotation):
        return "a mapping"
    if list_factory(annotation):
        return "a list"
    if is_path_type(annotation):
        return "a path"
    return _WORDS.get(annotation) or f"a {getattr(annotation, '__name__', 'value')}"


def pydantic_annotation(annotation: Any) -> Any:
    """Return an annotation with its bounds in pydantic's form: `Meta(ge=1)` to `Field(ge=1)`."""
    from pydantic import Field

    inner, metadata = unwrap_annotated(annotation)
    if not metadata:
        return inner
    converted = [
        Field(
            ge=each.ge,
            gt=each.gt,
            le=each.le,
            lt=each.lt,
            min_length=each.min_length,
            max_length=each.max_length,
            pattern=each.pattern,
        )
        if isinstance(each, msgspec.Meta)
        else each
        for each in metadata
    ]
    return Annotated[(inner, *converted)]
