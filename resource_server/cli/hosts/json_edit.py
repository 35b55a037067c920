"""Edits of JSON with comments and trailing commas (JSONC) that keep all other bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn, cast

from typing_extensions import override

from resource_server.cli.hosts.text_edit import (
    CannotEdit,
    ConfigText,
    Edit,
    json_text,
    line_number,
    without,
)
from resource_server.manifest.wording import one_line, quoted_value

_TRIVIA = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
_STRING = r'"(?:[^"\\]|\\.)*+"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING}|[\[{{]\s*,)|,(?=\s*[\]}}])", re.DOTALL)
_SAME_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:[^*\r\n]|\*(?!/))*+\*/[ \t]*(?=[\r\n]))?")
"""What follows a value on its line: a comment to the end of the line belongs to the value."""


class _Member(NamedTuple):
    """A member of an object."""

    name: str
    value: object
    start: int
    value_start: int
    end: int
    comma: int
    """The end of its comma, or 0."""


class _Object(NamedTuple):
    """An object: the positions of its braces, and its members."""

    start: int
    end: int
    members: Sequence[_Member]


class JsonConfig(ConfigText):
    """A configuration in JSON, with comments and trailing commas (JSONC)."""

    @override
    def entries(self) -> dict[str, object]:
        found, missing = _descend(self.text, self.keys)
        if found is None or missing:
            return {}
        return {member.name: member.value for member in found.members}

    @override
    def rest(self, name: str) -> str:
        root, _ = _descend(self.text, ())
        members = {} if root is None else {each.name: each.value for each in root.members}
        return repr(without(members, (*self.keys, name)))

    @override
    def added(self, name: str, value: object) -> list[Edit]:
        text = self.text
        found, missing = _descend(text, self.keys)
        first, *inner = [*missing, name]
        for key in reversed(inner):
            value = {key: value}
        if found is None:
            written = _written({first: value}, "  ", "", self.newline)
            return [Edit(len(text), len(text), written + self.newline)]
        return _added(
            text, found, _new_member(text, found, first, value, self.newline), self.newline
        )

    @override
    def replaced(self, name: str, value: object) -> list[Edit]:
        found, member, _ = self._member(name)
        margin = _indentation(self.text, member.start)
        written = _value(self.text, found, value, margin, self.newline)
        return [Edit(member.value_start, member.end, written)]

    @override
    def removed(self, name: str) -> list[Edit]:
        found, member, place = self._member(name)
        start, end = member.start, member.comma or member.end
        above = found.members[place - 1].comma if place else found.start + 1
        begin, end = _lines_of(self.text, start, end, above=above)
        if member.comma or not place:
            return [Edit(begin, end, "")]
        if above == begin:
            return [Edit(above - 1, end, "")]
        return [Edit(above - 1, above, ""), Edit(begin, end, "")]

    def _member(self, name: str) -> tuple[_Object, _Member, int]:
        """Return a server that is there, and its place in its object."""
        found = cast("_Object", _descend(self.text, self.keys)[0])
        same = [at for at, member in enumerate(found.members) if member.name == name]
        if len(same) > 1:
            raise _twice(self.text, found.members[same[1]])
        return found, found.members[same[0]], same[0]


def _lines_of(text: str, start: int, end: int, *, above: int) -> tuple[int, int]:
    """Return what goes with a member: the whitespace before it, unless comments would be joined."""
    line = start - len(_indentation(text, start))
    if text[line - 1 : line] != "\n":
        return line, end
    newline = line - (2 if text[line - 2 : line] == "\r\n" else 1)
    below = text[end:].partition("\n")[0].strip()
    if below and (below.startswith("//") or "//" in text[above:newline]):
        return start, end
    return newline, end


def _added(text: str, found: _Object, member: str, newline: str) -> list[Edit]:
    """Return the edits that add a written member at the end of an object."""
    if not found.members:
        # Comments inside stay where they are, after the new member.
        rest = text[found.start + 1 : found.end - 1]
        closing = "" if rest.strip(" \t")[:1] in ("\r", "\n") else newline
        if closing:
            closing += _indentation_of_line(text, found.start)
        position = found.start + 1
        return [Edit(position, position, member + closing)]
    last = found.members[-1]
    if not member.startswith(newline):
        comma = "," if last.comma else ""
        position = last.comma or last.end
        return [Edit(position, position, f"{'' if last.comma else ','}{member}{comma}")]
    after = _SAME_LINE.match(text, last.comma or last.end)
    position = after.end() if after is not None and after[0].strip() else last.comma or last.end
    if last.comma:
        return [Edit(position, position, f"{member},")]
    if position == last.end:
        return [Edit(position, position, f",{member}")]
    return [Edit(last.end, last.end, ","), Edit(position, position, member)]


def _new_member(text: str, found: _Object, name: str, value: object, newline: str) -> str:
    """Return a new member as text, with the whitespace before it, in the style of its object."""
    if found.members:
        margin = _indentation(text, found.members[-1].start)
        before = f"{newline}{margin}" if _unit(text, found, margin) else " "
    else:
        outer = _indentation_of_line(text, found.start)
        margin = outer + (_unit_of_file(text) or "  ")
        before = f"{newline}{margin}"
    return f"{before}{json_text(name)}: {_value(text, found, value, margin, newline)}"


def _value(text: str, found: _Object, value: object, margin: str, newline: str) -> str:
    """Return a value of an object's member as text: on one line if the object is."""
    unit = _unit(text, found, margin) if found.members else _unit_of_file(text) or "  "
    if not unit:
        return json_text(value)
    return _written(value, unit, margin, newline)


def _written(value: object, unit: str, margin: str, newline: str) -> str:
    lines = json_text(value, unit).split("\n")
    return f"{newline}{margin}".join(lines)


def _unit(text: str, found: _Object, margin: str) -> str:
    """Return the indentation of one level; empty for an object on one line."""
    if "\n" not in text[found.start : found.members[-1].start]:
        return ""
    outer = _indentation_of_line(text, found.start)
    return margin[len(outer) :] if margin.startswith(outer) and margin != outer else "  "


def _unit_of_file(text: str) -> str:
    """Return the first indentation of a file: that of one level."""
    match = re.search(r'\n([ \t]+)"', text)
    return match[1] if match else ""


def _indentation(text: str, position: int) -> str:
    """Return the spaces and tabs directly before a position."""
    start = len(text[:position].rstrip(" \t"))
    return text[start:position]


def _indentation_of_line(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _descend(text: str, keys: Sequence[str]) -> tuple[_Object | None, Sequence[str]]:
    """Return the innermost object that exists on a path, and the keys that are missing."""
    start = _after_trivia(text, 0)
    if start == len(text):
        return None, keys
    plain = _TRAILING_COMMA.sub(_blanked, _COMMENT.sub(_blanked, text))
    found = _object(text, plain, start, _decoded(text, plain, start), "the file")
    for depth, key in enumerate(keys):
        same = [member for member in found.members if member.name == key]
        if len(same) > 1:
            raise _twice(text, same[1])
        if not same:
            return found, keys[depth:]
        found = _object(text, plain, same[0].value_start, same[0].value, f"'{key}'")
    return found, ()


def _twice(text: str, member: _Member) -> CannotEdit:
    line = line_number(text, member.start)
    return CannotEdit(f"line {line}: '{member.name}' is there twice; remove one of them")


def _blanked(match: re.Match[str]) -> str:
    return match[1] or " " * len(match[0])


def _decoded(text: str, plain: str, start: int) -> object:
    """Return the value of a whole text; without comments and trailing commas it is JSON."""
    try:
        return json.loads(plain, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        at = max(error.pos, start)
        found = "the end of the file" if at >= len(text) else repr(text[at])
        problem = f"not valid JSON at {found}"
    except ValueError as error:
        at, problem = start, f"not valid JSON: {one_line(error)}"
    except RecursionError:
        at, problem = start, "nested too deeply"
    raise CannotEdit(f"line {line_number(text, at)}: {problem}; mend it first")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _object(text: str, plain: str, start: int, value: object, what: str) -> _Object:
    """Return the object at a position of a valid text."""
    if not isinstance(value, dict):
        reason = f"{what} must be an object, not {quoted_value(value)}"
        raise CannotEdit(f"line {line_number(text, start)}: {reason}; mend it first")
    decode = json.JSONDecoder().raw_decode
    members: list[_Member] = []
    position = _after_trivia(text, start + 1)
    while text[position] != "}":
        name, colon = decode(plain, position)
        begin = _after_trivia(text, _after_trivia(text, colon) + 1)
        inner, end = decode(plain, begin)
        after = _after_trivia(text, end)
        comma = after + 1 if text[after] == "," else 0
        members.append(_Member(name, inner, position, begin, end, comma))
        position = _after_trivia(text, comma or after)
    return _Object(start, position + 1, members)


def _after_trivia(text: str, position: int) -> int:
    match = _TRIVIA.match(text, position)
    return position if match is None else match.end()
