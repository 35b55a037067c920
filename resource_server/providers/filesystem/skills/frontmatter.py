"""Frontmatter of a `SKILL.md`: YAML 1.2 as JSON values, bounded and strict.

Hosts parse it with libraries of their own and refuse a skill whose entry differs. Text that two
parsers read differently is refused: anchors, tags, merged keys, duplicate keys, uncommon line ends.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any, TypeAlias, cast

import yaml

from resource_server.runtime.yaml_composer import (
    Oddity,
    OddityKind,
    Place,
    Scalar,
    YamlNode,
    compose,
)

MAX_BYTES = 16 * 1024
MAX_DEPTH = 32
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
HEAD_BYTES = MAX_BYTES + 64
"""Bytes of a `SKILL.md` in which its frontmatter must end."""

Json: TypeAlias = Scalar | list[Any] | dict[str, Any]

_MARK = b"\xef\xbb\xbf"
_CLOSE = re.compile(rb"^---[ \t]*\r?$", re.MULTILINE)
_LINE_ENDS = re.compile("\r(?!\n)|[\x85\u2028\u2029\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONG_NUMBER = re.compile(r"[-+]?\.?[0-9][-+.0-9a-fA-FxoE]{299,}")
_LARGEST_EXACT = 2**53


class SkillProblem(Exception):
    """Why a directory with a `SKILL.md` is not served as a skill; a sentence for the operator."""


def read_frontmatter(head: bytes, directory: str) -> dict[str, Any]:
    """Return the frontmatter at the beginning of a `SKILL.md` in a directory of this name.

    `head` is the whole file or its first `HEAD_BYTES`.

    Raises:
        SkillProblem: it is missing, no strict YAML, or breaks the Agent Skills specification.
    """
    data = _parsed(_yaml_text(head))
    _check(data, directory)
    return data


def _yaml_text(head: bytes) -> str:
    head = head.removeprefix(_MARK)
    if not head.startswith((b"---\n", b"---\r\n")):
        raise SkillProblem("SKILL.md does not begin with a line '---'")
    begin = head.index(b"\n") + 1
    close = _CLOSE.search(head, begin)
    if close is None or close.start() - begin > MAX_BYTES:
        if len(head) >= MAX_BYTES:
            raise SkillProblem(f"the frontmatter is longer than {MAX_BYTES:,} bytes")
        raise SkillProblem("no line '---' ends the frontmatter")
    try:
        text = head[begin : close.start()].decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise SkillProblem("the frontmatter is not UTF-8") from None
    if found := _LINE_ENDS.search(text):
        raise SkillProblem(
            f"the frontmatter has the character U+{ord(found[0]):04X}, which parsers disagree about"
        )
    return text


def _parsed(text: str) -> dict[str, Any]:
    oddities: list[Oddity] = []
    try:
        root = compose(text, max_depth=MAX_DEPTH, report=oddities.append)
    except yaml.MarkedYAMLError as error:
        # The line of the file: the first one is '---'.
        line = error.problem_mark.line + 2 if error.problem_mark else 0
        raise SkillProblem(f"the frontmatter is not YAML: line {line}: {error.problem}") from None
    except yaml.YAMLError:
        raise SkillProblem("the frontmatter is not YAML") from None
    for oddity in oddities:
        raise _refused(oddity.place, _ODDITIES[oddity.kind])
    found = {} if root is None else _json(root)
    if not isinstance(found, dict):
        raise SkillProblem("the frontmatter is no mapping of keys to values")
    return found


_ODDITIES: dict[OddityKind, str] = {
    **dict.fromkeys(("alias", "anchor"), "anchors and aliases are"),
    "depth": f"more than {MAX_DEPTH} levels are",
    **dict.fromkeys(("directive", "document"), "directives or a second document are"),
    "duplicate": "a key that is given twice is",
    "end": "a line '...' is",
    **dict.fromkeys(("key", "typed_key"), "a key that is no text is"),
    **dict.fromkeys(("merge", "merged"), "a key '<<' is"),
    **dict.fromkeys(("tag", "tag_of_others"), "tags are"),
}


def _json(node: YamlNode) -> Json:
    value = node.value
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        if "__proto__" in value:
            raise _refused(value["__proto__"].place, _ODDITIES["key"])
        return {_unicode(key, each.place): _json(each.node) for key, each in value.items()}
    if isinstance(value, str):
        if node.is_plain and _LONG_NUMBER.fullmatch(value):
            raise _refused(node.place, "a number of more than 300 digits is")
        return _unicode(value, node.place)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= _LARGEST_EXACT:
        return value
    with suppress(OverflowError):  # of an integer
        if math.isfinite(number := float(value)):  # as JavaScript has it
            return number
    raise _refused(node.place, "a number without a JSON form is")


def _unicode(text: str, place: Place) -> str:
    if _SURROGATE.search(text):
        raise _refused(place, "half of a surrogate pair is")
    return text


def _refused(place: Place, what: str) -> SkillProblem:
    line = place[0] + 1
    return SkillProblem(f"the frontmatter is not portable: line {line}: {what} not supported")


def _check(data: dict[str, Any], directory: str) -> None:
    name, description = data.get("name"), data.get("description")
    if not isinstance(name, str):
        raise SkillProblem("the frontmatter has no text 'name'")
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise SkillProblem(
            f"'name' must be 1 to {MAX_NAME} lower-case letters, digits and single hyphens"
        )
    if name != directory:
        raise SkillProblem(f"'name' is {name!r}; it must be that of the directory")
    if not isinstance(description, str) or not description.strip():
        raise SkillProblem("the frontmatter has no text 'description'")
    if len(description) > MAX_DESCRIPTION:
        raise SkillProblem(f"'description' has more than {MAX_DESCRIPTION:,} characters")
    _check_optional(data)


def _check_optional(data: dict[str, Any]) -> None:
    compatibility = data.get("compatibility", "any")
    if not isinstance(compatibility, str) or not 0 < len(compatibility) <= MAX_COMPATIBILITY:
        raise SkillProblem(f"'compatibility' must be text of 1 to {MAX_COMPATIBILITY} characters")
    metadata: object = data.get("metadata", {})
    if not isinstance(metadata, dict):
        raise SkillProblem("'metadata' must be a mapping of texts")
    for key, value in cast("dict[str, object]", metadata).items():
        if not isinstance(value, str):
            raise SkillProblem(f"'metadata.{key}' must be text; put it into quotes")
