"""Elicitation: questions to the person behind a client, for one request.

Up to 2025-11-25, the request waits while the server sends the client a request of its own. From
2026-07-28 on, the result of the request is the question, and the client repeats the request with
the answer; earlier answers come back in `requestState`. The state is not signed: a client can only
change its own answers, and all answers are validated alike.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, cast

import msgspec

from resource_server.errors import CANNOT_ELICIT, CannotElicit
from resource_server.protocol import revisions
from resource_server.protocol.client_features.server_requests import (
    Capability,
    ServerRequests,
    supports,
)
from resource_server.protocol.error_mapping import Fault
from resource_server.protocol.message import UNPARSABLE
from resource_server.protocol.outbox import Send
from resource_server.protocol.params import ClientCapabilities
from resource_server.protocol.revisions import Revision
from resource_server.provider.tools import ElicitationAnswer, Schema
from resource_server.runtime.eager import settle

MAX_STATE_CHARACTERS = 256 * 1024
"""Maximum characters of `requestState`."""
MAX_ANSWER_BYTES = 64 * 1024
"""Maximum bytes of an answer as JSON."""

_METHOD = "elicitation/create"
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

_encode = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Elicitor(Protocol):
    """Sends the elicitations of one request."""

    def can(self, capability: Capability) -> bool:
        """Return whether the client has a capability that this request can use."""
        ...

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """Ask the person; see `resource_server.provider.tools.ToolRequest.elicit`.

        Raises:
            CannotElicit: the client cannot, nobody answers in time, or the answer is invalid.
            RequestInterrupted: the result of the request is the question (2026-07-28).
        """
        ...


class RequestInterrupted(BaseException):
    """Ends a request. Not an `Exception`, which a tool might handle as a failure of its own."""


class InvalidAnswer(RequestInterrupted):
    """The answer in the request does not fit the question."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.fault = Fault(revisions.INVALID_PARAMS, f"Invalid params: {reason}")


class MissingCapability(CannotElicit, Fault):
    """The client lacks the elicitation capability: a JSON-RPC error of its own (2026-07-28)."""

    def __init__(self) -> None:
        data: Any = {"requiredCapabilities": {"elicitation": {}}}
        Fault.__init__(self, revisions.MISSING_CAPABILITY, CANNOT_ELICIT, data)


class InputRequired(RequestInterrupted):
    """Ends a request with a question as its result."""

    def __init__(self, key: str, question: Mapping[str, Any], state: str) -> None:
        super().__init__(key)
        self.key = key
        self.question = question
        self.state = state

    def members(self) -> bytes:
        """Return the members of the result."""
        members = {"inputRequests": {self.key: self.question}, "requestState": self.state}
        return _encode(members)[1:-1]


class RequestElicitor:
    """Elicits by a request to the client, up to 2025-11-25."""

    def __init__(
        self, revision: Revision, requests: ServerRequests | None, send: Send, timeout_s: float
    ) -> None:
        self._revision = revision
        self._requests = requests
        """None if no request can reach the client."""
        self._send = send
        self._timeout_s = timeout_s

    def can(self, capability: Capability) -> bool:
        """See `Elicitor.can`."""
        if self._requests is None or (capability == "elicitation" and not self._revision.forms):
            return False
        return supports(self._requests.capabilities, capability)

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `Elicitor.elicit`."""
        if self._requests is None or not self.can("elicitation"):
            raise CannotElicit
        form = ElicitationForm(schema)
        params = {"message": message, "requestedSchema": form.schema(self._revision)}
        result = await settle(self._requests.request(_METHOD, params, self._send, self._timeout_s))
        try:
            return form.answer(result)
        except UNPARSABLE:
            raise CannotElicit("the client's answer does not fit the question") from None


class ResultElicitor:
    """Elicits by the result of the request, from 2026-07-28 on."""

    def __init__(
        self,
        revision: Revision,
        capabilities: ClientCapabilities,
        responses: Mapping[str, msgspec.Raw] | None,
        state: str | None,
    ) -> None:
        self._revision = revision
        self._capabilities = capabilities
        self._responses = responses or {}
        self._state = state

    def can(self, capability: Capability) -> bool:
        """See `Elicitor.can`."""
        return capability == "elicitation" and supports(self._capabilities, capability)

    async def elicit(self, key: str, message: str, schema: Schema) -> ElicitationAnswer:
        """See `Elicitor.elicit`."""
        if not self.can("elicitation"):
            raise MissingCapability
        form = ElicitationForm(schema)
        given = {**_answers(self._state), **self._responses}
        if key not in given:
            params = {"message": message, "requestedSchema": form.schema(self._revision)}
            raise InputRequired(key, {"method": _METHOD, "params": params}, _state(given))
        try:
            return form.answer(given[key])
        except UNPARSABLE as error:
            raise InvalidAnswer(f"inputResponses: {key}: {error}") from None


def _state(answers: Mapping[str, msgspec.Raw]) -> str:
    state = base64.urlsafe_b64encode(_encode(answers)).decode("ascii")
    if len(state) > MAX_STATE_CHARACTERS:
        raise CannotElicit("the answers so far are too long")
    return state


def _answers(state: str | None) -> Mapping[str, msgspec.Raw]:
    if state is None:
        return {}
    try:
        if len(state) > MAX_STATE_CHARACTERS:
            raise ValueError
        return _decode_state(base64.b64decode(state.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, *UNPARSABLE):
        raise InvalidAnswer("requestState is not one of this server's") from None


# -- forms


class ElicitResult(msgspec.Struct, frozen=True):
    """The response of a person to a form: the action and the content."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


_decode_result = msgspec.json.Decoder(ElicitResult).decode


class ElicitationForm:
    """A form of text, numbers, booleans and choices, as clients can show them."""

    def __init__(self, schema: Schema) -> None:
        """Take the properties of an object schema; keywords that no form has are left out.

        Raises:
            CannotElicit: no form can have such a field.
        """
        self._fields = {
            name: _field(name, each) for name, each in schema.get("properties", {}).items()
        }
        required: Sequence[str] = schema.get("required", ())
        self._required = [name for name in required if name in self._fields]

    def schema(self, revision: Revision) -> dict[str, Any]:
        """Return `requestedSchema` for a client.

        Raises:
            CannotElicit: in this revision, no form can have such a field.
        """
        fields = self._fields
        if revision.plain_forms:
            fields = {name: _plain(name, field) for name, field in fields.items()}
        schema: dict[str, Any] = {"type": "object", "properties": fields}
        return {**schema, "required": self._required} if self._required else schema

    def answer(self, data: msgspec.Raw) -> ElicitationAnswer:
        """Return a person's answer, without fields that the form does not have.

        Raises:
            msgspec.ValidationError: the data are no `ElicitResult`.
            CannotElicit: a field is missing or invalid.
        """
        if len(memoryview(data)) > MAX_ANSWER_BYTES:
            raise CannotElicit(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
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


def _field(name: str, schema: Schema) -> dict[str, Any]:
    """Return a field in the format of the latest revision."""
    field_type, choices = _type(schema), _choices(schema)
    are_texts = all(isinstance(each, str) for each in choices or ())
    is_supported = field_type in _CONSTRAINTS and (field_type != "array" or choices is not None)
    if not is_supported or not are_texts:
        raise _not_in_forms(name)
    field: dict[str, Any] = {"type": field_type}
    field |= {keyword: schema[keyword] for keyword in _DESCRIPTIVE if keyword in schema}
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
    """Return the type of a field; an optional `null` is ignored, since a field may be left out."""
    types: object = schema.get("type", "string")
    if isinstance(types, list):
        others = [each for each in cast("list[object]", types) if each != "null"]
        types = others[0] if len(others) == 1 else None
    return types if isinstance(types, str) else ""


def _choices(field: Schema) -> list[Any] | None:
    """Return the choices of a field; None if it has none."""
    one: Schema = field.get("items", {}) if field.get("type") == "array" else field
    titled = one.get("anyOf" if one is not field else "oneOf")
    return one.get("enum") if titled is None else [each.get("const") for each in titled]


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
