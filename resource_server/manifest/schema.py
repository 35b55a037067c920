"""JSON Schema (2020-12) of the manifest, for completion and checks in editors.

Generated from the classes that decode the manifest and the options of built-in and installed
providers, with the descriptions below their fields.
"""

from __future__ import annotations

import contextlib
import inspect
import types
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic.errors import (
    PydanticInvalidForJsonSchema,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)

from resource_server.buckets.location import SCHEME
from resource_server.manifest import provider_references
from resource_server.manifest.audit import AuditFileOptions
from resource_server.manifest.http import Http
from resource_server.manifest.load import DATABASE_NAME, MOUNT_NAME, VERSION
from resource_server.manifest.model import ClientFolders, MountOptions, ServerOptions, Tools
from resource_server.manifest.prompts import PROMPT_NAME, Prompt
from resource_server.manifest.typed_options import (
    MISSING,
    Option,
    descriptions,
    has_options,
    is_path_type,
    item_types,
    list_factory,
    literal_values,
    mapping_types,
    options_of,
    pydantic_annotation,
    union_members,
    unwrap_annotated,
)
from resource_server.provider import ByteSize
from resource_server.runtime.option_types import Duration, Rate

Schema = dict[str, Any]

_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
"""Text with environment variables, which may replace any single value."""


def manifest_schema() -> Schema:
    """Return the JSON Schema of the manifest. Imports the classes of installed providers."""
    definitions: Schema = {
        "root": _root(),
        "object-root": {"title": "in object storage", **_mount("object_storage", has_use=False)},
        "database": _mount("database", has_use=False),
    }
    names = [*provider_references.built_in_names(), *provider_references.installed()]
    for name in names:
        # A package that fails to import has no known options; `check` reports the failure.
        with contextlib.suppress(Exception):
            definitions[f"provider-{name}"] = _mount(name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Manifest of resource-server",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "$schema": {"type": "string", "description": "This schema, for editors of JSON."},
            "version": {"const": VERSION, "description": "Version of the manifest format."},
            "server": {**_object(ServerOptions), "description": _summary(ServerOptions)},
            "http": {**_object(Http), "description": _summary(Http)},
            "roots": _by_name("Folder trees, by name.", MOUNT_NAME, _any_root()),
            "databases": _by_name(
                "Databases, by name.", DATABASE_NAME, {"$ref": "#/$defs/database"}
            ),
            "providers": _by_name(
                "Mounts of other providers, by name.",
                MOUNT_NAME,
                _any_provider(names, definitions),
            ),
            "tools": {
                "description": _summary(Tools),
                "anyOf": [_object(Tools), {"type": "boolean"}],
            },
            "audit": {
                "description": _summary(AuditFileOptions),
                "anyOf": [_object(AuditFileOptions), {"const": "stderr"}],
            },
            "prompts": _by_name("Prompts, by name.", PROMPT_NAME, _object(Prompt)),
        },
        "$defs": definitions,
    }


def _by_name(description: str, name: str, each: Schema) -> Schema:
    return {
        "type": ["object", "null"],
        "description": description,
        "propertyNames": {"pattern": f"^{name}$"},
        "additionalProperties": each,
    }


def _any_provider(names: list[str], definitions: Schema) -> Schema:
    return {
        "type": "object",
        "required": ["use"],
        "properties": {
            "use": {
                "description": "Name of a provider, or a .py file beside the manifest.",
                "anyOf": [{"enum": names}, {"type": "string"}],
            },
            **_properties(MountOptions),
            "watch": _open(_properties(MountOptions)["watch"]),
        },
        "allOf": [
            {
                "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
                "then": {"$ref": f"#/$defs/provider-{name}"},
            }
            for name in names
            if f"provider-{name}" in definitions
        ],
    }


def _open(found: Schema) -> Schema:
    """Return a choice that allows other values too, since a provider may extend it."""
    return {**found, "anyOf": [*found["anyOf"], {}]}


def _any_root() -> Schema:
    """Return the schema of a root: its path says whether it is a folder."""
    path: Schema = {"type": "string", "pattern": f"^(?:{SCHEME}|{SCHEME.upper()})"}
    return {
        "if": {"type": "object", "required": ["path"], "properties": {"path": path}},
        "then": {"$ref": "#/$defs/object-root"},
        "else": {"$ref": "#/$defs/root"},
    }


def _root() -> Schema:
    """Return the schema of a folder tree, with a path or with `from: client`."""
    found = _mount("filesystem", has_use=False)
    source = {"const": "client", "description": "Serve the folders offered by the client."}
    properties = {**found["properties"], "from": source, **_properties(ClientFolders)}
    return {
        **{key: value for key, value in found.items() if key != "required"},
        "properties": properties,
        "oneOf": [{"required": ["path"]}, {"required": ["from"]}],
        "dependentRequired": {"allow": ["from"]},
        "dependentSchemas": {"from": {"properties": {"uri": False}}},
    }


def _mount(name: str, *, has_use: bool = True) -> Schema:
    cls = provider_references.built_in(name) or provider_references.installed()[name].load()
    found = _object(cls)
    properties = {**_properties(MountOptions), **found["properties"]}
    if has_use:
        properties["use"] = {}
    return {**found, "properties": properties, "description": _summary(cls)}


def _object(cls: type) -> Schema:
    required = [name for name, option in options_of(cls).items() if option.default is MISSING]
    found: Schema = {
        "type": "object" if required else ["object", "null"],
        "additionalProperties": False,
        "properties": _properties(cls),
    }
    return {**found, "required": required} if required else found


def _properties(cls: type) -> Schema:
    words = descriptions(cls)
    return {name: _property(option, words.get(name)) for name, option in options_of(cls).items()}


def _property(option: Option, description: str | None) -> Schema:
    found = _of(option.annotation)
    if description:
        found = {**found, "description": description}
    default = _written(option.default)
    return found if default is None else {**found, "default": default}


def _written(default: object) -> object:
    """Return a default in manifest notation; None if there is none to show."""
    match default:
        case ByteSize():
            power = max(power for power in range(4) if default % 1024**power == 0)
            return (
                f"{default // 1024**power}{('', 'KiB', 'MiB', 'GiB')[power]}" if power else default
            )
        case Rate():
            return f"{default * 3600:g}/h"
        case Duration():
            return f"{default:g}s"
        case str() | int() | float():
            return default
        case tuple() if default:
            return list(cast("tuple[object, ...]", default))
        case _:
            return None


def _summary(cls: type) -> str:
    return (inspect.getdoc(cls) or cls.__name__).partition("\n")[0]


def _of(annotation: Any) -> Schema:
    inner, _ = unwrap_annotated(annotation)
    members = [arm for arm in union_members(inner) if arm is not types.NoneType]
    if len(members) > 1:
        return {"anyOf": [_of(arm) for arm in members]}
    if members[0] is not inner:
        return _of(members[0])
    if values := literal_values(inner):
        found: Schema = {"enum": list(values)}
        return {"anyOf": [found, _VARIABLE]} if any(isinstance(v, str) for v in values) else found
    if has_options(inner):
        return _object(inner)
    if mapping := mapping_types(inner):
        return {"type": ["object", "null"], "additionalProperties": _of(mapping[1])}
    if list_factory(inner):
        item, *_ = item_types(inner, 1)
        return {"type": "array", "items": _of(item)}
    if is_path_type(inner):
        return {"type": "string", "minLength": 1}
    return _single(annotation)


def _single(annotation: Any) -> Schema:
    if annotation is Any or annotation is object:
        return {}
    try:
        found = TypeAdapter(pydantic_annotation(annotation)).json_schema()
    except (PydanticInvalidForJsonSchema, PydanticUserError, PydanticUndefinedAnnotation):
        return {}
    return found if found.get("type") == "string" else {"anyOf": [found, _VARIABLE]}
