from __future__ import annotations

import textwrap
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from resource_server.cli.hosts.text_edit import CannotEdit, applied
from resource_server.cli.hosts.yaml_edit import YamlConfig

KEYS = ("extensions",)
VALUE: dict[str, object] = {"cmd": "/opt/x y", "args": ["serve", 'a "b" é: #'], "timeout": 300}
MEMBERS = st.sampled_from(
    [
        "a: 1\n",
        "b:  # beside\n  type: builtin\n  enabled: true\n",
        "c:\n  cmd: |\n    x\n    y\n\n",
        "d: {type: stdio, args: [1, 2,], }  # flow\n",
        "e:\n- 1\n- - 2\n  # deep\n",
        "'f g': &anchor\n  k: >-\n    folded\n    text\n",
        '# between\n\nh: "x: y"\n',
        "i:\n",
        "j: ''\n",
        "k:\n  - l: m\n    n: o # end\n",
    ]
)


@st.composite
def mappings(draw: st.DrawFn) -> str:
    return "".join(draw(st.lists(MEMBERS, max_size=5, unique=True)))


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ").rstrip(" ").replace("&anchor", "&other")


@st.composite
def documents(draw: st.DrawFn) -> str:
    extensions = draw(
        st.none()
        | st.sampled_from(
            ["", " {}", " # none\n", " {a: {type: x}}", ' {"a": 1,}  # c', " &all {b: {}}"]
        )
        | mappings().filter(bool).map(lambda text: "\n" + _indented(text))
    )
    text = draw(st.sampled_from(["", "# top\n", "---\n", "# é\n\n"])) + draw(mappings())
    if extensions is not None:
        text += (
            f"extensions:{extensions}".rstrip("\n")
            + "\n"
            + draw(st.sampled_from(["", "# after\n", "z: 1\n", "\n\nz: [1]\n# end\n"]))
        )
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    # The last line of a block scalar has no end then, which is part of its value.
    is_open = text.rstrip().endswith(("y", "text"))
    return text if is_open or draw(st.booleans()) else text.rstrip("\r\n")


@pytest.mark.guarantee("configurations-keep-the-rest")
@given(documents())
def test_a_server_is_added_and_removed_without_any_other_change(text: str) -> None:
    before: Any = yaml.safe_load(text) or {}
    servers: Any = before.get("extensions") or {}
    [edit] = YamlConfig(text, KEYS).put("ours", VALUE)
    assert edit.start == edit.end, "something was replaced"
    after = applied(text, [edit])
    assert yaml.safe_load(after) == {**before, "extensions": {**servers, "ours": VALUE}}
    changed = applied(after, YamlConfig(after, KEYS).put("ours", {"cmd": "n"}))
    assert yaml.safe_load(changed)["extensions"]["ours"] == {"cmd": "n"}
    for with_ours in after, changed:
        removed = applied(with_ours, YamlConfig(with_ours, KEYS).remove("ours"))
        assert (yaml.safe_load(removed)["extensions"] or {}) == servers
        if servers:
            assert removed in (text, f"{text}\n", f"{text}\r\n")
        else:
            kept = removed.replace("extensions:", "").replace("{}", "").split()
            assert kept == text.replace("extensions:", "").replace("{}", "").split()


def test_what_cannot_be_edited_is_refused() -> None:
    for text, reason in {
        "a: [": "not valid YAML",
        "- 1": "line 1: the file must be a mapping; mend it first",
        "a: 1\nextensions: [1]": "line 2: 'extensions' must be a mapping; mend it first",
        "extensions: text": "line 1: 'extensions' must be a mapping; mend it first",
        "extensions: {}\nextensions: {}": "line 2: 'extensions' is there twice",
        "a: &x {b: 1}\nextensions: *x": "'extensions' is an alias",
        "a: 1\n---\nb: 1\n": "not valid YAML",
        "x" * 1_000_001: "over 1,000,000 characters",
        "[" * 2000: "not valid YAML",
    }.items():
        with pytest.raises(CannotEdit) as refused:
            YamlConfig(text, KEYS).put("n", VALUE)
        assert reason in refused.value.message


def test_an_anchor_in_an_entry_that_others_use_keeps_the_entry() -> None:
    text = "extensions:\n  n: &x {cmd: y}\n  o: *x\n"
    with pytest.raises(CannotEdit, match="needs an editor"):
        YamlConfig(text, KEYS).remove("n")
