"""JSON forms of database values, the same for every engine.

| in the database | in JSON |
|---|---|
| NULL | `null` |
| integer of at most 2^53 - 1, with either sign | number |
| larger integer, which JavaScript would change | string of its digits |
| real | number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| decimal | string of its digits, with its scale: `"1.10"` |
| boolean; 0 and 1 in a boolean column | `true`, `false`; any other number unchanged |
| text, enumeration | string |
| text over the cell limit | `{"uri": …, "$text": "start", "characters": n, "truncated": true}` |
| text that is not Unicode | as its bytes, like a blob |
| blob | `{"$blob": "base64", "bytes": n}` |
| blob over 1 KiB | the same with its first KiB, `"truncated": true` and `"uri"` |
| date, time, timestamp | string, ISO 8601: `"2026-11-20T10:00:00Z"`; as stored where that is text |
| duration (MariaDB TIME) | string `"[-]HH:MM:SS[.ffffff]"`, hours may exceed 24 |
| UUID, network address | string |
| JSON | the value, its numbers beyond a double as strings; a string if it does not parse |
| JSON `null`, and objects that look like one of these forms | `{"$json": "null"}`, as written |
| array | array of these forms; PostgreSQL's multiranges are arrays of ranges |
| composite | object of these forms; an array if it has no names |
| range, point and other shapes, bit string | string as PostgreSQL writes it: `"[1,5)"` |
| MariaDB BIT | number |
| MariaDB SET | string as MariaDB writes it: `"x,z"` |
| anything else | string |

An array, composite or JSON value over the cell limit is truncated like text. The limit counts
characters of text; below 1 KiB it also shortens blobs. `uri` is that of the `~cell` with the whole
value; rows without an address and results of callers' SQL have none. Values of one column may have
different forms: SQLite allows a different type in every cell, and a value that does not fit its
column never fails a page.

Declared queries report only the names of their columns, so values that need the declared type
(JSON, booleans and BIT of SQLite and MariaDB) keep the form of the driver's value.

Drivers return text as `str`, with lone surrogates for bytes that are not UTF-8, and JSON as text.
Driver classes are recognised by name, so that no driver is imported here.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from resource_server import media_types, uris
from resource_server.errors import InvalidParameter
from resource_server.providers.database.addressing.key_types import char_text
from resource_server.providers.database.engines.contract import TruncatedValue
from resource_server.providers.database.engines.reflection import Column
from resource_server.runtime.json_numbers import exact_integer, exact_json

INLINE_BLOB_BYTES = 1024
"""Maximum bytes of a blob shown inline in a row."""

RowValues: TypeAlias = Sequence[object]

_NO_LIMIT = sys.maxsize

# msgspec encodes these without conversion.
NATIVE_TYPES = frozenset(
    (type(None), bool, datetime.datetime, datetime.date, datetime.time, uuid.UUID)
)  # fmt: skip

_FRACTION_ZEROS = re.compile(r"(?<=\.)(\d*?)0+(?=[+-]|\Z)")
_RANGE_QUOTED = frozenset('"\\(),[] \t\n\r\v\f')
_JSON_ARRAYS = frozenset(("json[]", "jsonb[]"))
_BIT = re.compile(r"bit(\(\d+\))?", re.IGNORECASE)

_encode = msgspec.json.Encoder().encode
_parse = msgspec.json.Decoder(Raw).decode
_parse_object = msgspec.json.Decoder(dict[str, Raw]).decode
_MARKS = frozenset(("$blob", "$text", "$json"))


class Blob(msgspec.Struct, frozen=True, gc=False):
    """A blob, or the beginning of one."""

    uri: str | UnsetType
    """URI of the whole value, if it is truncated and has one: first, since a reader may cut."""
    base64: str = msgspec.field(name="$blob")
    bytes: int
    """Size of the whole blob."""
    truncated: Literal[True] | UnsetType = UNSET


class TruncatedText(msgspec.Struct, frozen=True, gc=False):
    """The beginning of a text over the cell limit."""

    uri: str | UnsetType
    """URI of the whole value, if it has one: first, since a reader may cut."""
    text: str = msgspec.field(name="$text")
    characters: int
    """Length of the whole text."""
    truncated: Literal[True] = True


class JsonText(msgspec.Struct, frozen=True, gc=False):
    """JSON that would look like NULL, or like one of these forms."""

    json: str = msgspec.field(name="$json")


def is_truncated(form: object) -> bool:
    """Return whether the form of a value has only its beginning."""
    return isinstance(form, Blob | TruncatedText) and form.truncated is True


def exact(form: Raw) -> Raw:
    """Return the form of a JSON value for JSON: without numbers that JavaScript would change."""
    text = bytes(form).decode()
    shown = exact_json(text)
    return form if shown is text else Raw(shown.encode())


def with_uri(form: object, uri: str | None) -> object:
    """Return the form of a truncated value with the URI of the whole one, if it has one."""
    if uri is None or not isinstance(form, Blob | TruncatedText):
        return form
    return msgspec.structs.replace(form, uri=uri)


class CellDocument(NamedTuple):
    """One value as a document."""

    data: str | bytes
    mime_type: str


def json_value(value: Any, column: Column, *, cell: int) -> object:
    """Return the JSON form of one value, ready for msgspec."""
    cls = cast("type[object]", type(value))
    if cls in NATIVE_TYPES:
        return value
    if cls is TruncatedValue:
        return _beginning(value, cell)
    if cls is str:
        return _json(value, cell) if column.kind == "json" else _shown_text(value, cell)
    if cls is int and column.kind == "boolean" and 0 <= value <= 1:
        return value == 1
    if cls is bytes and column.type == '"char"':
        return char_text(value)
    if cls is list and column.type in _JSON_ARRAYS:
        return _compound(_parsed(value), cell)
    if cls is bytes and _is_bit(column):
        return _integer(int.from_bytes(value, "big"), cell)
    if column.values and isinstance(value, set | frozenset):
        return _members(cast("set[object]", value), column.values, cell)
    return _form_of(cls)(value, cell)


def _parsed(value: object) -> object:
    """Return an array of JSON texts with what they hold."""
    if isinstance(value, list):
        return [_parsed(each) for each in cast("list[object]", value)]
    return _json(value, _NO_LIMIT) if isinstance(value, str) else value


def _beginning(value: TruncatedValue, cell: int) -> TruncatedText | Blob:
    if isinstance(value.data, str):
        return TruncatedText(UNSET, uris.display(value.data[:cell]), value.size)
    return Blob(UNSET, _base64(value.data, cell), value.size, truncated=True)


def _is_bit(column: Column) -> bool:
    # SQLite has no BIT type: columns declared so are numeric.
    return column.kind != "numeric" and _BIT.fullmatch(column.type) is not None


def _json(text: str, cell: int) -> object:
    if len(text) <= cell:
        try:
            parsed = _parse(text)
            return JsonText(text) if _is_ambiguous(text) else parsed
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            pass
    return _shown_text(text, cell)


def _is_ambiguous(text: str) -> bool:
    """Return whether JSON looks like the form of another value."""
    if text.strip() == "null":
        return True
    if not text.lstrip().startswith("{") or ("$" not in text and "\\u0024" not in text):
        return False
    return not _MARKS.isdisjoint(_parse_object(text))


def _shown_text(text: str, cell: int) -> object:
    if not text.isascii() and not uris.is_unicode(text):
        return _blob(_bytes(text), cell)
    return text if len(text) <= cell else TruncatedText(UNSET, text[:cell], len(text))


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _blob(data: Any, cell: int) -> Blob:
    view = memoryview(data).cast("B")
    cut = len(view) > min(INLINE_BLOB_BYTES, cell)
    return Blob(UNSET, _base64(view, cell), len(view), True if cut else UNSET)


def _base64(data: bytes | memoryview, cell: int) -> str:
    import pybase64  # here: most tables have no bytes

    return pybase64.b64encode(bytes(data[: min(INLINE_BLOB_BYTES, cell)])).decode("ascii")


def _integer(value: int, cell: int) -> object:
    return exact_integer(int(value))


def _real(value: float, cell: int) -> object:
    return float(value) if math.isfinite(value) else _not_finite(value)


def _members(values: Iterable[object], order: Sequence[str], cell: int) -> object:
    places = {name: place for place, name in enumerate(order)}
    names = sorted(map(str, values), key=lambda name: (places.get(name, len(places)), name))
    return _shown_text(",".join(names), cell)


def _compound(value: Any, cell: int) -> object:
    encoded = _encode(_nested(value))
    if len(encoded) <= cell:
        return Raw(encoded)
    return _shown_text(encoded.decode(), cell)


def _nested(value: Any) -> object:
    """Return the forms inside an array, composite or object, untruncated."""
    cls = cast("type[object]", type(value))
    if cls in NATIVE_TYPES or cls is Raw or cls is JsonText:
        return value
    form = _form_of(cls)
    if form is not _compound:
        return form(value, _NO_LIMIT)
    if isinstance(value, Mapping) or (
        cls.__name__ == "Record" and cls.__module__.startswith("asyncpg")
    ):
        items = cast("Mapping[object, object]", value).items()
        return {uris.display(str(name)): _nested(item) for name, item in items}
    return [_nested(item) for item in value]


# -- values without a JSON form, as their database writes them


def _not_finite(value: float) -> str:
    """Return `NaN`, `Infinity` or `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _number_literal(value: float) -> str:
    """Return a coordinate as PostgreSQL writes it: `1` for 1.0, `Infinity`."""
    return repr(value).removesuffix(".0") if math.isfinite(value) else _not_finite(value)


def _decimal_literal(value: Decimal) -> str:
    """Return a Decimal in digits (`0.00000001`, not `1E-8`), `NaN` or `Infinity`."""
    text = str(value)
    return format(value, "f") if "E" in text and abs(value.adjusted()) < 1000 else text


def _duration_literal(value: datetime.timedelta) -> str:
    """Return `[-]HH:MM:SS[.ffffff]`, hours unbounded, as MariaDB writes a TIME."""
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    minutes, seconds = divmod(value.days * 86400 + value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}" if value.microseconds else ""
    return f"{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"


def _range_literal(value: Any) -> str:
    if value.isempty:
        return "empty"
    opening = "[" if value.lower_inc else "("
    closing = "]" if value.upper_inc else ")"
    return f"{opening}{_bound_literal(value.lower)},{_bound_literal(value.upper)}{closing}"


def _bound_literal(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        text = _FRACTION_ZEROS.sub(r"\1", str(value))
        text = text if value.tzinfo is None else text.removesuffix(":00")
    elif isinstance(value, float):
        text = _number_literal(value)
    elif isinstance(value, Decimal):
        text = _decimal_literal(value)
    else:
        text = str(value)
    if text and _RANGE_QUOTED.isdisjoint(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'


def _point_literal(value: Any) -> str:
    return f"({_number_literal(value[0])},{_number_literal(value[1])})"


def _points_literal(values: Iterable[Any]) -> str:
    return ",".join(map(_point_literal, values))


def _path_literal(value: Any) -> str:
    return f"({_points_literal(value)})" if value.is_closed else f"[{_points_literal(value)}]"


def _circle_literal(value: Any) -> str:
    return f"<{_point_literal(value.center)},{_number_literal(value.radius)}>"


def _line_literal(value: Any) -> str:
    return "{" + ",".join(map(_number_literal, value)) + "}"


def _bits_literal(value: Any) -> str:
    return str(value.as_string()).replace(" ", "")


_LITERALS: dict[tuple[str, str], Callable[[Any], str]] = {
    ("asyncpg", "BitString"): _bits_literal,
    ("asyncpg", "Box"): _points_literal,
    ("asyncpg", "Circle"): _circle_literal,
    ("asyncpg", "Line"): _line_literal,
    ("asyncpg", "LineSegment"): lambda value: f"[{_points_literal(value)}]",
    ("asyncpg", "Path"): _path_literal,
    ("asyncpg", "Point"): _point_literal,
    ("asyncpg", "Polygon"): lambda value: f"({_points_literal(value)})",
    ("asyncpg", "Range"): _range_literal,
    ("datetime", "timedelta"): _duration_literal,
    ("decimal", "Decimal"): _decimal_literal,
}
"""Writers by top-level package and class name."""


_FORMS: dict[tuple[str, str], Callable[[Any, int], object]] = {
    ("asyncpg", "Record"): _compound,
    ("builtins", "bool"): lambda value, cell: bool(value),
    ("builtins", "bytearray"): _blob,
    ("builtins", "bytes"): _blob,
    ("builtins", "dict"): _compound,
    ("builtins", "float"): _real,
    ("builtins", "frozenset"): lambda value, cell: _members(value, (), cell),
    ("builtins", "int"): _integer,
    ("builtins", "list"): _compound,
    ("builtins", "memoryview"): _blob,
    ("builtins", "set"): lambda value, cell: _members(value, (), cell),
    ("builtins", "str"): lambda value, cell: _shown_text(str(value), cell),
    ("builtins", "tuple"): _compound,
    ("datetime", "date"): lambda value, cell: value,
    ("datetime", "time"): lambda value, cell: value,
    ("uuid", "UUID"): lambda value, cell: str(value),
}


def literal(value: object) -> str:
    """Return the text of a driver's value, as the engine writes it."""
    return _LITERALS.get((type(value).__module__.partition(".")[0], type(value).__name__), str)(
        value
    )


@functools.lru_cache(maxsize=256)
def _form_of(cls: type) -> Callable[[Any, int], object]:
    """Return the converter of a class, or of its first known base class."""
    for base in cls.__mro__:
        name = (base.__module__.partition(".")[0], base.__name__)
        if form := _FORMS.get(name):
            return form
        if write := _LITERALS.get(name):
            return functools.partial(_literal, write)
    return functools.partial(_literal, str)


def _literal(write: Callable[[Any], str], value: object, cell: int) -> object:
    return _shown_text(write(value), cell)


def whole_cell(value: Any, column: Column) -> CellDocument:
    """Return a value as a document of its own, untruncated.

    Text is `text/plain`; JSON, numbers and NULL are `application/json`. The type of a blob, and of
    text that is not Unicode, is detected from its bytes. Slow: run it in a worker thread.

    Raises:
        InvalidParameter: the value is too large for memory.
    """
    if isinstance(value, TruncatedValue):
        unit = "characters" if isinstance(value.data, str) else "bytes"
        raise InvalidParameter(f"the value has {value.size} {unit}, more than can be read here")
    form = json_value(value, column, cell=_NO_LIMIT)
    if isinstance(form, Blob):
        return _document(_bytes(value) if isinstance(value, str) else bytes(value))
    if isinstance(form, Raw | JsonText):
        text = value if isinstance(value, str) else bytes(cast("Raw", form)).decode()
        return CellDocument(text, "application/json")
    plain: object = msgspec.to_builtins(form)
    if isinstance(plain, str):
        return CellDocument(plain, "text/plain")
    return CellDocument(_encode(plain).decode(), "application/json")


def _document(data: bytes) -> CellDocument:
    try:
        text = None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        text = None
    if not data or text is None:
        # A text type would promise characters, and these bytes do not decode.
        mime_type = media_types.of_content(data, None, decodes=False)
        return CellDocument(data, mime_type if data else "application/octet-stream")
    mime_type = media_types.of_content(data, None, decodes=True)
    return CellDocument(data if media_types.is_binary(mime_type) else text, mime_type)
