from __future__ import annotations

import time

import pytest

from resource_server.providers.filesystem.skills.frontmatter import (
    HEAD_BYTES,
    MAX_BYTES,
    MAX_DEPTH,
    SkillProblem,
    read_frontmatter,
)
from tests.cases import for_each

HEAD = "name: tea\ndescription: Brew tea\n"


def read(text: str | bytes, directory: str = "tea") -> dict[str, object]:
    data = text if isinstance(text, bytes) else text.encode()
    return read_frontmatter(data[:HEAD_BYTES], directory)


def skill(more: str = "", head: str = HEAD) -> str:
    return f"---\n{head}{more}---\n# Body\n"


@for_each(
    ("written", "value"),
    [
        ("no", "no"),
        ("off", "off"),
        ("Yes", "Yes"),
        ("true", True),
        ("2024-01-01", "2024-01-01"),
        ("1:30", "1:30"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.0", 1.0),
        ("1_000", "1_000"),
        ("'1.0'", "1.0"),
        ("", None),
        ("~", None),
        ("[a, 2, {b: c}]", ["a", 2, {"b": "c"}]),
        ("9007199254740993", 9007199254740992.0),
        ('"\\u00fc"', "ü"),
        ("<<", "<<"),
    ],
)
def test_values_are_those_of_yaml_1_2(written: str, value: object) -> None:
    assert read(skill(f"x: {written}\n"))["x"] == value


@for_each(
    "text",
    [
        skill(),
        "\ufeff" + skill(),
        skill().replace("\n", "\r\n"),
        "---\n" + HEAD + "---",
        "---\n" + HEAD + "--- \t\n",
        "---\n" + HEAD + "---\n" + "# long\n" * 100_000,
    ],
)
def test_frontmatter_ends_at_its_line_whatever_follows(text: str) -> None:
    assert read(text) == {"name": "tea", "description": "Brew tea"}


def test_the_longest_allowed_values_are_read() -> None:
    name = "a" * 64
    head = f"name: {name}\ndescription: {'ü' * 1024}\ncompatibility: {'e' * 500}\n"
    more = "metadata: {a: b, 'no': 'no'}\nallowed-tools: [Read, Write]\n"
    found = read(skill(more, head), name)
    assert (found["name"], found["metadata"]) == (name, {"a": "b", "no": "no"})
    filler = f"x: {'y' * (MAX_BYTES - len(HEAD) - 4)}\n"
    assert len(HEAD + filler) == MAX_BYTES
    assert read(skill(filler))["x"]


BOMB = "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 8)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@for_each(
    ("text", "problem"),
    [
        ("", "does not begin"),
        ("# Tea\n", "does not begin"),
        (" ---\n" + HEAD + "---\n", "does not begin"),
        ("----\n" + HEAD + "---\n", "does not begin"),
        ("---\n" + HEAD, "no line '---'"),
        ("---\n" + HEAD + " ---\n", "no line '---'"),
        (skill(f"x: {'y' * MAX_BYTES}\n"), "longer than"),
        ("---\n" + "x" * 10_000_000, "longer than"),
        (b"---\nname: \xff\n---\n", "not UTF-8"),
        (b"\xff\xfe-\0-\0-\0", "does not begin"),
        (skill("x: a\rb: c\n"), "U+000D"),
        (skill("x: a\u2028b: c\n"), "U+2028"),
        (skill("x: a\x85b: c\n"), "U+0085"),
        (skill("x: \ufeff\n"), "U+FEFF"),
        (skill("x: \0\n"), "not YAML"),
        (skill("x: 'open\n"), "not YAML"),
        (skill("\tx: y\n"), "not YAML: line 4"),
        (skill("x: [1\n"), "not YAML"),
        (skill("x: &a 1\n"), "line 4: anchors and aliases"),
        (skill("x: *a\n"), "anchors and aliases"),
        (skill(BOMB), "anchors and aliases"),
        (skill("x: &a [*a]\n"), "anchors and aliases"),
        (skill("x: !!str 1\n"), "tags"),
        (skill("x: !!python/object/apply:os.system [ls]\n"), "tags"),
        (skill("x: ! 1\n"), "tags"),
        (skill("name: tea\n"), "given twice"),
        (skill("x: {a: 1, a: 2}\n"), "given twice"),
        (skill("<<: {a: 1}\n"), "a key '<<' is"),
        (skill("1: x\n"), "no text"),
        (skill("true: x\n"), "no text"),
        (skill("? [a]\n: x\n"), "no text"),
        (skill("__proto__: x\n"), "no text"),
        (skill("x: .nan\n"), "without a JSON form"),
        (skill("x: -.inf\n"), "without a JSON form"),
        (skill("x: 1e999\n"), "without a JSON form"),
        (skill(f"x: 0x{'f' * 257}\n"), "without a JSON form"),
        (skill(f"x: {'9' * 400}\n"), "more than 300 digits"),
        (skill('x: "\\uD800"\n'), "the frontmatter is not"),
        (skill(f"x: {'[' * (MAX_DEPTH + 1)}{']' * (MAX_DEPTH + 1)}\n"), "levels"),
        (skill(f"x: {'[' * 15_000}\n"), "levels"),
        (skill(f"x: {'{a: ' * 3_000}\n"), "levels"),
        (skill("...\n"), "line '...'"),
        (skill("", "%YAML 1.1\n--- \n" + HEAD), "not YAML"),
        (skill("", "- name\n- tea\n"), "no mapping"),
        (skill("", "tea\n"), "no mapping"),
        (skill("", ""), "no text 'name'"),
        (skill("", "description: x\n"), "no text 'name'"),
        (skill("", "name: 5\ndescription: x\n"), "no text 'name'"),
        (skill("", "name: other\ndescription: x\n"), "must be that of the directory"),
        (skill("", "name: Tea\ndescription: x\n"), "lower-case"),
        (skill("", "name: tea--x\ndescription: x\n"), "lower-case"),
        (skill("", f"name: {'a' * 65}\ndescription: x\n"), "lower-case"),
        (skill("", "name: tea\n"), "no text 'description'"),
        (skill("", "name: tea\ndescription: 5\n"), "no text 'description'"),
        (skill("", "name: tea\ndescription: ' '\n"), "no text 'description'"),
        (skill("", f"name: tea\ndescription: {'x' * 1025}\n"), "1,024"),
        (skill("compatibility: 5\n"), "compatibility"),
        (skill("compatibility: ''\n"), "compatibility"),
        (skill(f"compatibility: {'x' * 501}\n"), "compatibility"),
        (skill("metadata: {version: 1.0}\n"), "'metadata.version' must be text"),
        (skill("metadata: [a]\n"), "'metadata' must be"),
        (skill("metadata:\n"), "'metadata' must be"),
    ],
)
def test_what_hosts_refuse_or_read_differently_is_a_problem(
    text: str | bytes, problem: str
) -> None:
    began = time.process_time()
    with pytest.raises(SkillProblem) as raised:
        read(text)
    assert problem in str(raised.value)
    assert time.process_time() - began < 5
