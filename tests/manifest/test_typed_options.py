"""Typed options of classes: names, annotations, defaults, descriptions and type names."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from resource_server.manifest.typed_options import (
    MISSING,
    described_type,
    descriptions,
    has_options,
    item_types,
    list_factory,
    mapping_types,
    options_of,
    union_members,
    unwrap_annotated,
)
from resource_server.provider import ByteSize
from resource_server.runtime.option_types import Duration, Rate
from tests.cases import for_each


@dataclass
class Data:
    path: str
    """Where it is:
    a folder."""
    size: int = 1
    """Its size."""
    tags: list[str] = field(default_factory=list[str])
    _private: int = 0
    derived: int = field(default=0, init=False)


class Record(msgspec.Struct):
    path: str
    size: int = 1


class Plain:
    def __init__(self, path: str, *rest: int, size: int = 1, untyped=None, **more: int) -> None:  # type: ignore[no-untyped-def]
        pass


class Derived(Record):
    size: int = 2
    """Another size."""


def test_the_options_of_a_dataclass_are_the_fields_of_its_constructor() -> None:
    options = options_of(Data)
    assert [(each.name, each.default) for each in options.values()] == [
        ("path", MISSING),
        ("size", 1),
        ("tags", []),
    ]
    assert options["tags"].annotation == list[str]


def test_the_options_of_a_struct_are_its_fields() -> None:
    found = {name: (each.annotation, each.default) for name, each in options_of(Record).items()}
    assert found == {"path": (str, MISSING), "size": (int, 1)}


def test_the_options_of_another_class_are_its_named_parameters() -> None:
    found = {name: (each.annotation, each.default) for name, each in options_of(Plain).items()}
    assert found == {"path": (str, MISSING), "size": (int, 1), "untyped": (Any, None)}


def test_descriptions_are_the_strings_below_fields_and_are_inherited() -> None:
    assert descriptions(Data) == {"path": "Where it is: a folder.", "size": "Its size."}
    assert descriptions(Derived) == {"size": "Another size."}


def test_only_dataclasses_and_structs_are_decoded_from_a_mapping() -> None:
    assert has_options(Data)
    assert has_options(Record)
    assert not has_options(Plain)
    assert not has_options(dict[str, str])


def test_types_are_taken_apart() -> None:
    assert unwrap_annotated(Annotated[int, Meta(ge=1)]) == (int, (Meta(ge=1),))
    assert unwrap_annotated(int) == (int, ())
    assert union_members(int | None) == (int, type(None))
    assert union_members(int) == (int,)
    assert mapping_types(Mapping[str, int]) == (str, int)
    assert mapping_types(dict) == (str, Any)
    assert mapping_types(int) is None
    assert list_factory(Sequence[int]) is tuple
    assert list_factory(set[int]) is set
    assert list_factory(str) is None
    assert item_types(list[int], 2) == (int, int)
    assert item_types(tuple[int, str], 5) == (int, str)
    assert item_types(tuple[int, ...], 3) == (int, int, int)


@for_each(
    ("annotation", "words"),
    [
        (str, "text"),
        (bool, "true or false"),
        (int | None, "a whole number"),
        (str | list[str], "text or a list"),
        (Literal["a", "b"], "one of a, b"),
        (Literal[False], "false"),
        (Annotated[float, Meta(ge=0)], "a number"),
        (Data, "a mapping"),
        (dict[str, int], "a mapping"),
        (tuple[str, ...], "a list"),
        (pathlib.Path, "a path"),
        (ByteSize, "a size such as 64KiB"),
        (Duration, "a time such as 250ms or 2s"),
        (Rate, "a rate such as 200/s"),
        (Plain, "a Plain"),
    ],
)
def test_a_type_is_described_in_words(annotation: Any, words: str) -> None:
    assert described_type(annotation) == words
