"""Plain manifest data, as YAML has it: text, numbers, truth values, nothing, lists, mappings."""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

Scalar: TypeAlias = str | int | float | bool | None

DataPath: TypeAlias = tuple[str | int, ...]
"""The keys and list indexes that lead to a value; `()` is the whole manifest."""


def is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is a mapping; its keys are text."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a list."""
    return isinstance(value, list)
