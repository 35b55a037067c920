"""Forms that a client shows to a person: what may be in one, and whether it was filled in right."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from resource_server.errors import CannotElicit
from resource_server.protocol.revisions import Revision
from resource_server.provider.tools import ElicitationAnswer, Schema

MAX_ANSWER_BYTES = 64 * 1024

_WORDS = ("title", "description", "default")
_KEPT = {
    "string": ("minLength", "maxLength", "format"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")


class Reply(msgspec.Struct, frozen=True):
    """What a client says that a person did with a form (MCP `ElicitResult`)."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(Reply).decode


class Form:
    """Fields by name: of text, numbers, truth values and choices, as clients can show them."""

    def __init__(self, schema: Schema) -> None:
        """Take the fields of an object's JSON Schema; what no form can say of one is left out.

        Raises:
            CannotElicit: a field is none of a form.
        """
        self._fields = {
            name: _field(name, each) for name, each in schema.get("properties", {}).items()
        }
        required: Sequence[str] = schema.get("required", ())
        self._required = [name for name in required if name in self._fields]

    def schema(self, revision: Revision) -> dict[str, Any]:
        """Return the schema that is sent: `requestedSchema`.

        Raises:
            CannotElicit: a field is none of a form in this revision.
        """
        fields = self._fields
        if revision.plain_forms:
            fields = {name: _plain(name, field) for name, field in fields.items()}
        schema: dict[str, Any] = {"type": "object", "properties": fields}
        return {**schema, "required": self._required} if self._required else schema

    def answer(self, data: msgspec.Raw) -> ElicitationAnswer:
        """Return what a person answered; what was not asked for is left out.

        Raises:
            msgspec.ValidationError: it is no answer to a form at all.
            CannotElicit: it was not filled in as the fields demand.
        """
        if len(memoryview(data)) > MAX_ANSWER_BYTES:
            raise CannotElicit(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        reply = _decode(data)
        if reply.action != "accept":
            return ElicitationAnswer(reply.action)
        given = {name: value for name, value in (reply.content or {}).items() if value is not None}
        if missing := [name for name in self._required if name not in given]:
            raise CannotElicit(f"the answer lacks {', '.join(missing)}")
        filled = {name: given[name] for name in self._fields if name in given}
        return ElicitationAnswer(
            "accept",
            {name: _checked(name, self._fields[name], value) for name, value in filled.items()},
        )


def _field(name: str, asked: Schema) -> dict[str, Any]:
    """Return a field as the latest revision has it."""
    kind, choices = _kind(asked), _choices(asked)
    are_texts = all(isinstance(each, str) for each in choices or ())
    if kind not in _KEPT or not are_texts or (kind == "array" and choices is None):
        raise _not_in_forms(name)
    field: dict[str, Any] = {"type": kind}
    field |= {word: asked[word] for word in _WORDS if word in asked}
    if choices is not None and kind == "string":
        return field | _among(asked, "oneOf")
    if kind == "array":
        items = _among(asked["items"], "anyOf")
        field["items"] = items if "anyOf" in items else {"type": "string", **items}
    for word in _KEPT[kind]:
        if word in asked and (word != "format" or asked[word] in _FORMATS):
            field[word] = asked[word]
    return field


def _not_in_forms(name: str) -> CannotElicit:
    return CannotElicit(
        f"nobody can be asked for '{name}': this client's forms have text, numbers, truth values "
        "and choices"
    )


def _kind(asked: Schema) -> str:
    """Return the type of a field, where nothing is as good as null."""
    kinds: object = asked.get("type", "string")
    if isinstance(kinds, list):
        several = [each for each in cast("list[object]", kinds) if each != "null"]
        kinds = several[0] if len(several) == 1 else None
    return kinds if isinstance(kinds, str) else ""


def _choices(field: Schema) -> list[Any] | None:
    """Return the values to choose from, where a field has such."""
    one: Schema = field.get("items", {}) if field.get("type") == "array" else field
    titled = one.get("anyOf" if one is not field else "oneOf")
    return one.get("enum") if titled is None else [each.get("const") for each in titled]


def _among(asked: Schema, word: str) -> dict[str, Any]:
    """Return the members that say what there is to choose from; `word` is that of titled ones."""
    if word in asked:
        return {word: [{"const": each["const"], "title": _title(each)} for each in asked[word]]}
    return {name: asked[name] for name in ("enum", "enumNames") if name in asked}


def _title(choice: Schema) -> str:
    return choice.get("title", choice["const"])


def _plain(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field as 2025-06-18 has it."""
    if field["type"] == "array":
        raise _not_in_forms(name)
    later = {"oneOf"} if field["type"] == "boolean" else {"oneOf", "default"}
    plain = {word: value for word, value in field.items() if word not in later}
    if "oneOf" in field:
        plain["enum"] = _choices(field)
        plain["enumNames"] = [_title(each) for each in field["oneOf"]]
    return plain


def _checked(name: str, field: Mapping[str, Any], value: object) -> object:
    """Return a value as the field's type has it.

    Raises:
        CannotElicit: it does not fit.
    """
    match field["type"], value:
        case "boolean", bool():
            return value
        case "array", list():
            return _chosen(name, field, cast("list[object]", value))
        case "integer", float() if value.is_integer():
            value = int(value)
        case "integer" | "number", bool():
            raise _misfit(name, field)
        case ("integer", int()) | ("number", int() | float()) | ("string", str()):
            pass
        case _:
            raise _misfit(name, field)
    if not (_fits_text(field, value) if isinstance(value, str) else _fits_number(field, value)):
        raise _misfit(name, field)
    return value


def _chosen(name: str, field: Mapping[str, Any], values: list[object]) -> list[object]:
    choices = _choices(field) or ()
    least, most = field.get("minItems", 0), field.get("maxItems", len(values))
    if not least <= len(values) <= most or any(each not in choices for each in values):
        raise _misfit(name, field)
    return values


def _misfit(name: str, field: Mapping[str, Any]) -> CannotElicit:
    choices = _choices(field)
    some = "some" if field["type"] == "array" else "one"
    wanted = f"{some} of {', '.join(choices)}" if choices else field.get("format", field["type"])
    limits = [f"{word} {field[word]}" for word in _KEPT[field["type"]] if word in field]
    wanted = ", ".join([wanted, *(each for each in limits if not each.startswith("format"))])
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
