from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resource_server.cli.hosts.json_edit import JsonConfig
from resource_server.cli.hosts.text_edit import CannotEdit, applied

KEYS = ("mcpServers",)
VALUE: dict[str, object] = {"command": "/opt/x y", "args": ["serve", 'a "b" é']}
_WHOLE = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


def decoded(text: str) -> Any:
    """Return the value of JSONC, read in a way of its own."""
    plain = _WHOLE.sub(lambda m: m[1] or " ", text.removeprefix("\ufeff"))
    return json.loads(_COMMA.sub(lambda m: m[1] or "", plain))


trivia = st.sampled_from(
    ["", "", " ", "\n", "\n  ", "\r\n\t", " /* , } */ ", " // {\n", "\n// \u00e9\r\n  ", "/*\n*/"]
)
names = st.sampled_from(["a", "b c", "mcpServers", "servers", "\\u00e9", '\\"', "", "//", "/*"])
scalars = st.sampled_from(
    ["1", "-0.5e3", "true", "null", '""', '"x // y"', '"\\\\"', '"],}"', "{}"]
)


@st.composite
def objects(draw: st.DrawFn, depth: int = 2, extra: str | None = None) -> str:
    """An object as text, with any whitespace and comments, perhaps with a given member."""
    members: list[str] = []
    used = draw(st.lists(names, max_size=3, unique=True))
    for name in [each for each in used if extra is None or each != "mcpServers"]:
        value = draw(st.one_of(scalars, objects(depth - 1)) if depth else scalars)
        if draw(st.booleans()):
            value = f"[{draw(trivia)}{value}{draw(trivia)}]"
        members.append(f'{draw(trivia)}"{name}"{draw(trivia)}:{draw(trivia)}{value}{draw(trivia)}')
    if extra is not None:
        member = f'{draw(trivia)}"mcpServers"{draw(trivia)}:{draw(trivia)}{extra}{draw(trivia)}'
        members.insert(draw(st.integers(0, len(members))), member)
    comma = "," if members and draw(st.booleans()) else ""
    return "{" + ",".join(members) + comma + draw(trivia) + "}"


@st.composite
def documents(draw: st.DrawFn) -> str:
    servers = draw(st.none() | objects())
    return draw(trivia) + draw(objects(1, servers)) + draw(trivia)


@pytest.mark.guarantee("configurations-keep-the-rest")
@given(documents())
@example('{"mcpServers":{\n"a":1 /* , } */ } /* , } */ \n}')
@example('{"mcpServers":{\n"a":1}} // {\n')
def test_a_server_is_added_and_removed_without_any_other_change(text: str) -> None:
    before = decoded(text)
    servers: Any = before.get("mcpServers", {})
    if not isinstance(servers, dict):
        with pytest.raises(CannotEdit, match="must be an object"):
            JsonConfig(text, KEYS).put("ours", VALUE)
        return
    assert JsonConfig(text, KEYS).entries() == servers
    edits = JsonConfig(text, KEYS).put("ours", VALUE)
    assert all(edit.start == edit.end for edit in edits), "something was replaced"
    after = applied(text, edits)
    assert decoded(after) == {**before, "mcpServers": {**servers, "ours": VALUE}}
    assert JsonConfig(after, KEYS).put("ours", {"n": 1})
    changed = applied(after, JsonConfig(after, KEYS).put("ours", {"n": 1}))
    assert decoded(changed)["mcpServers"]["ours"] == {"n": 1}
    for with_ours in after, changed:
        removed = applied(with_ours, JsonConfig(with_ours, KEYS).remove("ours"))
        if servers:
            assert removed == text
        else:
            assert decoded(removed) == {**before, "mcpServers": {}}
        if servers == {} and "mcpServers" in before:
            assert "".join(removed.split()) == "".join(text.split())


@given(documents(), st.data())
def test_a_text_cut_anywhere_is_refused_or_read_alike(text: str, data: st.DataObject) -> None:
    cut = text[: data.draw(st.integers(0, len(text)))]
    try:
        expected = decoded(cut)
    except ValueError:
        expected = None
    try:
        found = JsonConfig(cut, KEYS).entries()
    except CannotEdit:
        return
    assert not cut.strip() or expected is not None or not found


def test_the_style_of_the_file_is_kept() -> None:
    tabs = '{\r\n\t"mcpServers": {\r\n\t\t"a": 1, // one\r\n\t},\r\n}\r\n'
    assert applied(tabs, JsonConfig(tabs, KEYS).put("n", {"k": []})) == (
        '{\r\n\t"mcpServers": {\r\n\t\t"a": 1, // one\r\n\t\t"n": {\r\n\t\t\t"k": []\r\n\t\t},\r\n'
        "\t},\r\n}\r\n"
    )
    comment = '{\n    "mcpServers": {\n        "a": 1 // one\n    }\n}'
    assert applied(comment, JsonConfig(comment, KEYS).put("n", {"k": 1})) == (
        '{\n    "mcpServers": {\n        "a": 1, // one\n        "n": {\n            "k": 1\n'
        "        }\n    }\n}"
    )
    line = '{"mcpServers": {"a": 1}}'
    assert applied(line, JsonConfig(line, KEYS).put("n", {"k": 1})) == (
        '{"mcpServers": {"a": 1, "n": {"k": 1}}}'
    )
    nothing = '{\n  "theme": "dark"\n}\n'
    assert applied(nothing, JsonConfig(nothing, KEYS).put("n", {"k": 1})) == (
        '{\n  "theme": "dark",\n  "mcpServers": {\n    "n": {\n      "k": 1\n    }\n  }\n}\n'
    )
    for empty in "", " \n", "// mine\n", "{}", "{\n}":
        assert decoded(applied(empty, JsonConfig(empty, KEYS).put("n", {}))) == {
            "mcpServers": {"n": {}}
        }


def test_a_comment_beside_an_entry_of_ours_stays() -> None:
    text = '{"mcpServers": {\n  // about a\n  "a": 1, // a\n  // about n\n  "n": 2 // n\n}}'
    after = applied(text, JsonConfig(text, KEYS).remove("n"))
    assert decoded(after) == {"mcpServers": {"a": 1}}
    assert after.count("//") == 4


def test_what_is_invalid_is_refused_with_its_line() -> None:
    for text, reason in {
        "{": "line 1: not valid JSON at the end of the file; mend it first",
        '{\n"a" 1}': "line 2: not valid JSON at '1'; mend it first",
        "{'a': 1}": 'line 1: not valid JSON at "\'"; mend it first',
        '{"a": 01}': "line 1: not valid JSON at '1'; mend it first",
        '{"a": NaN}': "line 1: not valid JSON: NaN; mend it first",
        '{"a": 1} {}': "line 1: not valid JSON at '{'; mend it first",
        '{"a": "\\x"}': "line 1: not valid JSON at '\\\\'; mend it first",
        "{,}": "line 1: not valid JSON at ','; mend it first",
        '{"a": "b}': "line 1: not valid JSON at '\"'; mend it first",
        '{"a": [1 2]}': "line 1: not valid JSON at '2'; mend it first",
        '{"a": /* }': "line 1: not valid JSON at '/'; mend it first",
        "[]": "line 1: the file must be an object, not an empty list; mend it first",
        '\n"x"': "line 2: the file must be an object, not 'x'; mend it first",
        '{"mcpServers": []}': (
            "line 1: 'mcpServers' must be an object, not an empty list; mend it first"
        ),
        '{"mcpServers": 1}': (
            "line 1: 'mcpServers' must be an object, not the number 1; mend it first"
        ),
        '{"mcpServers": {},\n"mcpServers": {}}': (
            "line 2: 'mcpServers' is there twice; remove one of them"
        ),
        '{"mcpServers": {"n": 1,\n\n"\\u006e": 2}}': (
            "line 3: 'n' is there twice; remove one of them"
        ),
    }.items():
        for edit in (
            lambda text=text: JsonConfig(text, KEYS).put("n", VALUE),
            lambda text=text: JsonConfig(text, KEYS).remove("n"),
        ):
            with pytest.raises(CannotEdit) as refused:
                edit()
            assert refused.value.message == reason


def test_large_files_are_edited_and_deep_ones_refused() -> None:
    large = ",".join(f'"{n}": {{"k": "{"x" * 90}"}}' for n in range(4_000))
    text = f'{{{large}, "mcpServers": {{"a": {{}}}}}}'
    assert JsonConfig(text, KEYS).entries() == {"a": {}}
    after = applied(text, JsonConfig(text, KEYS).put("n", VALUE))
    assert after.endswith(f', "n": {json.dumps(VALUE, ensure_ascii=False)}}}}}')
    assert applied(after, JsonConfig(after, KEYS).remove("n")) == text
    with pytest.raises(CannotEdit, match="line 1: nested too deeply"):
        JsonConfig(f'{{"deep": {"[" * 50_000}{"]" * 50_000}}}', KEYS).put("n", VALUE)
