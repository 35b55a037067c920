"""What a type annotation asks of manifest data: choices, items, options, or one value."""

from __future__ import annotations

import json
import pathlib
import types
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from resource_server.manifest.options import has_options
from resource_server.provider import ByteSize
from resource_server.runtime.option_types import Duration
from resource_server.runtime.rate_limit import Rate

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


def unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return an annotation without `Annotated`, and its metadata."""
    # `type Name = ...` statements (Python 3.12) are objects that hold the type.
    annotation = getattr(annotation, "__value__", annotation)
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return inner, tuple(metadata)
    return annotation, ()


def arms(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or of another type just itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def choices(annotation: Any) -> tuple[Any, ...]:
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


def list_type(annotation: Any) -> Callable[[Iterable[Any]], Any] | None:
    """Return what a list of this type is made with; None for types that are not lists."""
    try:
        return _LISTS.get(get_origin(annotation) or annotation)
    except TypeError:  # not hashable, so none of ours
        return None


def item_types(annotation: Any, length: int) -> tuple[Any, ...]:
    """Return the type of each item of a list; as many as a tuple of fixed length has."""
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple and arguments[-1:] != (...,):
        return arguments
    return (arguments[0] if arguments else Any,) * length


def is_path(annotation: Any) -> bool:
    """Whether a type is a file system path, to be resolved against the manifest's folder."""
    return isinstance(annotation, type) and issubclass(annotation, pathlib.PurePath)


def describe(annotation: Any) -> str:
    """Return what is expected, in words: `text or a list`, `one of a, b`."""
    annotation, _ = unwrap(annotation)
    members = [arm for arm in arms(annotation) if arm not in (None, types.NoneType)]
    if len(members) > 1:
        return " or ".join(dict.fromkeys(describe(arm) for arm in members))
    if len(members) == 1 and members[0] is not annotation:
        return describe(members[0])
    if values := choices(annotation):
        words = ", ".join(
            json.dumps(each) if isinstance(each, bool) else str(each) for each in values
        )
        return f"one of {words}" if len(values) > 1 else words
    if has_options(annotation) or mapping_types(annotation):
        return "a mapping"
    if list_type(annotation):
        return "a list"
    if is_path(annotation):
        return "a path"
    return _WORDS.get(annotation) or f"a {getattr(annotation, '__name__', 'value')}"


def for_pydantic(annotation: Any) -> Any:
    """Return an annotation whose bounds pydantic knows too: `Meta(ge=1)` becomes `Field(ge=1)`."""
    from pydantic import Field

    inner, metadata = unwrap(annotation)
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
