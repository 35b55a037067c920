"""Plain manifest data to values of annotated types, noting every problem where it stands.

Classes with options (dataclasses, Structs), containers, choices and paths are taken apart here, so
that each problem is found at its own place; pydantic reads the single values and every other type.
"""

from __future__ import annotations

import pathlib
import types
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAliasType,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import ErrorDetails

from resource_server.manifest import wording
from resource_server.manifest.options import MISSING, Option, has_options, options_of
from resource_server.manifest.pydantic_types import for_pydantic
from resource_server.manifest.positions import DataPath, Positions, Problems
