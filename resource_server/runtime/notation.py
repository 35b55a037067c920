"""How pydantic reads option types that are a number or a text: `2s`, `64KiB`, `200/s`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


def schema_of(parse: Callable[[Any], object], number: CoreSchema, pattern: str) -> CoreSchema:
    """Return a schema that reads by `parse`; in a JSON Schema it is a number, or such a text."""
    # Imported here: whoever serves a folder without a manifest never loads pydantic.
    from pydantic_core import core_schema

    text = core_schema.str_schema(pattern=pattern)
    return core_schema.no_info_plain_validator_function(
        parse, json_schema_input_schema=core_schema.union_schema([number, text])
    )
