"""Elicitation: a question to the person behind a client, as a form to fill in."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from typing_extensions import override

from resource_server.errors import CannotElicit
from resource_server.protocol.client_features.client_inputs import Input
from resource_server.protocol.revisions import Revision
from resource_server.provider.tools import ElicitationAnswer, Schema

_DESCRIPTIVE = ("title", "description", "default")
_CONSTRAINTS = {
    "string": ("minLength", "maxLength", "format"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")


def missing_arguments(title: str, fields: Mapping[str, Schema]) -> Elicitation:
    """Return the question for required arguments that a call lacks, by their schemas.

    Raises:
        CannotElicit: no form can have such a field.
    """
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return Elicitation(f"{title}: please give {', '.join(fields)}.", schema)


class ElicitResult(msgspec.Struct, frozen=True):
    """The response of a person to a form: the action and the content."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


_decode_result = msgspec.json.Decoder(ElicitResult).decode


class Elicitation(Input[ElicitationAnswer]):
    """A question, with a form of text, numbers, booleans and choices, as clients can show them."""

    capability = "elicitation"
    method = "elicitation/create"
    max_answer_bytes = 64 * 1024

    def __init__(self, message: str, schema: Schema) -> None:
        """Take the properties of an object schema; keywords that no form has are left out.

        Raises:
            CannotElicit: no form can have such a field.
        """
        self._message = message
        self._fields = {
            name: _field(name, each) for name, each in schema.get("properties", {}).items()
        }
        required: Sequence[str] = schema.get("required", ())
        self._required = [name for name in required if name in self._fields]

    @override
    def params(self, revision: Revision) -> Mapping[str, Any]:
        fields = self._fields
        if revision.plain_forms:
            fields = {name: _plain(name, field) for name, field in fields.items()}
        schema: dict[str, Any] = {"type": "object", "properties": fields}
        if self._required:
            schema["required"] = self._required
        return {"message": self._message, "requestedSchema": schema}

    @override
    def answer(self, data: msgspec.Raw) -> ElicitationAnswer:
        result = _decode_result(data)
        if result.action != "accept":
            return ElicitationAnswer(result.action)
        given = {name: value for name, value in (result.content or {}).items() if value is not None}
        if missing := [name for name in self._required if name not in given]:
            raise CannotElicit(f"the answer lacks {', '.join(missing)}")
        filled = {name: given[name] for name in self._fields if name in given}
        return ElicitationAnswer(
            "accept",
            {name: _checked(name, self._fields[name], value) for name, value in filled.items()},
        )


def _field(name: str, schema: Schema | bool) -> dict[str, Any]:
    """Return a field in the format of the latest revision."""
    if isinstance(schema, bool):
        raise _not_in_forms(name)
    field_type, choices = _type(schema), _choices(schema)
    are_texts = all(isinstance(each, str) for each in choices or ())
    is_supported = field_type in _CONSTRAINTS and (field_type != "array" or choices is not None)
    if not is_supported or not are_texts:
        raise _not_in_forms(name)
    field: dict[str, Any] = {"type": field_type}
    field |= {keyword: schema[keyword] for keyword in _DESCRIPTIVE if keyword in schema}
    if field_type == "string" and isinstance(field.get("default"), int | float):
        field["default"] = str(field["default"])
    if choices is not None and field_type == "string":
        return field | _choice_members(schema, "oneOf")
    if field_type == "array":
        items = _choice_members(schema["items"], "anyOf")
        field["items"] = items if "anyOf" in items else {"type": "string", **items}
    for keyword in _CONSTRAINTS[field_type]:
        if keyword in schema and (keyword != "format" or schema[keyword] in _FORMATS):
            field[keyword] = schema[keyword]
    return field


def _not_in_forms(name: str) -> CannotElicit:
    return CannotElicit(
        f"cannot ask for '{name}': this client's forms have only text, numbers, booleans and "
        "choices"
    )


def _type(schema: Schema) -> str:
    """Return the type of a field; an optional `null` is ignored, since a field may be left out.

    A number that may be text is asked for as text: numbers of forms are those of JavaScript.
    """
    types: object = schema.get("type", "string")
    if isinstance(types, list):
        others = [each for each in cast("list[object]", types) if each != "null"]
        is_text = others in (["integer", "string"], ["number", "string"])
        types = "string" if is_text else others[0] if len(others) == 1 else None
    return types if isinstance(types, str) else ""


def _choices(field: Schema) -> list[Any] | None:
    """Return the choices of a field; None if it has none."""
    is_array = _type(field) == "array"
    one: Schema = _object(field.get("items")) if is_array else field
    titled = one.get("anyOf" if is_array else "oneOf")
    return one.get("enum") if titled is None else [_object(each).get("const") for each in titled]


def _object(schema: object) -> Schema:
    """Return a schema as an object; `true` and `false` are schemas, too."""
    return cast("Schema", schema) if isinstance(schema, Mapping) else {}


def _choice_members(schema: Schema, keyword: str) -> dict[str, Any]:
    """Return the members that list the choices; `keyword` is that of choices with titles."""
    if keyword in schema:
        choices = schema[keyword]
        return {keyword: [{"const": each["const"], "title": _title(each)} for each in choices]}
    return {name: schema[name] for name in ("enum", "enumNames") if name in schema}


def _title(choice: Schema) -> str:
    return choice.get("title", choice["const"])


def _plain(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field in the format of 2025-06-18."""
    if field["type"] == "array":
        raise _not_in_forms(name)
    later = {"oneOf"} if field["type"] == "boolean" else {"oneOf", "default"}
    plain = {keyword: value for keyword, value in field.items() if keyword not in later}
    if "oneOf" in field:
        plain["enum"] = _choices(field)
        plain["enumNames"] = [_title(each) for each in field["oneOf"]]
    return plain


def _checked(name: str, field: Mapping[str, Any], value: object) -> object:
    """Return a value in the type of its field.

    Raises:
        CannotElicit: it is invalid.
    """
    match field["type"], value:
        case "boolean", bool():
            return value
        case "array", list():
            return _checked_choices(name, field, cast("list[object]", value))
        case "integer", float() if value.is_integer():
            value = int(value)
        case "integer" | "number", bool():
            raise _invalid(name, field)
        case ("integer", int()) | ("number", int() | float()) | ("string", str()):
            pass
        case _:
            raise _invalid(name, field)
    if not (_fits_text(field, value) if isinstance(value, str) else _fits_number(field, value)):
        raise _invalid(name, field)
    return value


def _checked_choices(name: str, field: Mapping[str, Any], values: list[object]) -> list[object]:
    choices = _choices(field) or ()
    minimum, maximum = field.get("minItems", 0), field.get("maxItems", len(values))
    if not minimum <= len(values) <= maximum or any(each not in choices for each in values):
        raise _invalid(name, field)
    return values


def _invalid(name: str, field: Mapping[str, Any]) -> CannotElicit:
    choices = _choices(field)
    expected = field.get("format", field["type"])
    if choices:
        quantity = "some" if field["type"] == "array" else "one"
        expected = f"{quantity} of {', '.join(choices)}"
    limits = [
        f"{keyword} {field[keyword]}"
        for keyword in _CONSTRAINTS[field["type"]]
        if keyword in field and keyword != "format"
    ]
    wanted = ", ".join([expected, *limits])
    return CannotElicit(f"the answer for '{name}' is not what was asked for: {wanted}")


def _fits_number(field: Mapping[str, Any], value: float) -> bool:
    return field.get("minimum", value) <= value <= field.get("maximum", value)


def _fits_text(field: Mapping[str, Any], value: str) -> bool:
    choices = _choices(field)
    if choices is not None:
        return value in choices
    if not field.get("minLength", 0) <= len(value) <= field.get("maxLength", len(value)):
        return False
    try:
        return _FORMATS[field["format"]](value) if "format" in field else True
    except ValueError:
        return False


def _is_date(value: str) -> bool:
    return len(value) == len("2026-07-28") and bool(datetime.date.fromisoformat(value))


def _is_time(value: str) -> bool:
    return datetime.datetime.fromisoformat(value).tzinfo is not None


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "email": lambda value: _EMAIL.fullmatch(value) is not None,
    "uri": lambda value: _URI.fullmatch(value) is not None,
    "date": _is_date,
    "date-time": _is_time,
}
