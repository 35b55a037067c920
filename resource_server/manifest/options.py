"""The options of a class: what its constructor takes, with types, defaults and descriptions.

Read from a dataclass's fields, a msgspec Struct's, or a plain class's signature. Names that begin
with an underscore are the class's own business.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, TypeGuard, cast, get_type_hints

import msgspec

MISSING: Any = dataclasses.MISSING


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One option; `default` is `MISSING` where it must be given."""

    name: str
    annotation: Any
    default: Any = MISSING


def has_options(annotation: object) -> TypeGuard[type[Any]]:
    """Whether a type is read from a mapping of options: a plain dataclass or a Struct."""
    if not isinstance(annotation, type):
        return False
    if dataclasses.is_dataclass(annotation):
        # pydantic's own dataclasses and models validate themselves.
        return not hasattr(annotation, "__pydantic_validator__")
    return issubclass(annotation, msgspec.Struct)


def options_of(cls: type) -> dict[str, Option]:
    """Return the options of a class by name, in order.

    Raises:
        NameError, TypeError: its annotations cannot be resolved.
    """
    options = _signature(cls) if not has_options(cls) else _fields(cls)
    return {option.name: option for option in options if not option.name.startswith("_")}


def _fields(cls: type) -> Iterator[Option]:
    # Not the whole class as namespace: the contract's `list` method hides the type in `list[str]`.
    nested = {name: value for name, value in vars(cls).items() if isinstance(value, type)}
    hints = get_type_hints(cls, localns=nested, include_extras=True)
    if issubclass(cls, msgspec.Struct):
        for field in msgspec.structs.fields(cls):
            default = MISSING if field.required else field.default
            yield Option(field.name, hints[field.name], default)
    else:
        for field in dataclasses.fields(cast("Any", cls)):
            if field.init:
                yield Option(field.name, hints[field.name], _default(field))


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _signature(cls: type) -> Iterator[Option]:
    hints = get_type_hints(cls.__init__, include_extras=True)
    for name, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            default = MISSING if parameter.default is parameter.empty else parameter.default
            yield Option(name, hints.get(name, Any), default)


def descriptions(cls: type) -> dict[str, str]:
    """Return what the class says of its options: the strings below its fields, as one line each."""
    found: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(parent)))
        except (OSError, TypeError, SyntaxError):
            continue  # built in, or its source is not installed
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
