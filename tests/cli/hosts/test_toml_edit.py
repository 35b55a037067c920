from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resource_server.cli.hosts.text_edit import CannotEdit, applied
from resource_server.cli.hosts.toml_edit import TomlConfig

KEYS = ("mcp_servers",)
VALUE: dict[str, object] = {"command": "/opt/x y", "args": ["serve", 'a "b" é']}
OTHERS = st.sampled_from(
    [
        "# a comment\n",
        "\n",
        '[profiles."x y"]\nmodel = "a"   # beside\n',
        "[[things]]\nn = 1_000\n[[things]]\n",
        "[mcp_servers.other]\ncommand = 'a'\nargs = [\n  'b', # c\n  'd',\n]\n\n",
        '[mcp_servers.other2.env]\nTOKEN = """\nx\n  y"""\n',
        "[mcp_servers.other3]\nurl = \"https://x\"\n[mcp_servers.other3.http_headers]\nA = 'b'\n",
    ]
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    top = draw(st.sampled_from(["", "# top\nmodel = 'x'\n\n", "a.b = 1 # c\n"]))
    text = top + "".join(draw(st.lists(OTHERS, max_size=6, unique=True)))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text if draw(st.booleans()) else text.rstrip("\r\n")


@pytest.mark.guarantee("configurations-keep-the-rest")
@given(documents())
def test_a_server_is_added_and_removed_without_any_other_change(text: str) -> None:
    before = tomllib.loads(text)
    servers = before.get("mcp_servers", {})
    assert TomlConfig(text, KEYS).entries() == servers
    [edit] = TomlConfig(text, KEYS).put("ours", VALUE)
    assert edit.start == edit.end, "something was replaced"
    after = applied(text, [edit])
    assert tomllib.loads(after) == {**before, "mcp_servers": {**servers, "ours": VALUE}}
    assert ("\r\n" in after) == ("\r\n" in text)
    changed = applied(after, TomlConfig(after, KEYS).put("ours", {"command": "n"}))
    assert tomllib.loads(changed)["mcp_servers"]["ours"] == {"command": "n"}
    for with_ours in after, changed:
        removed = applied(with_ours, TomlConfig(with_ours, KEYS).remove("ours"))
        assert removed.rstrip() == text.rstrip()
        assert tomllib.loads(removed).get("mcp_servers", {}) == servers


def test_a_server_between_others_is_replaced_and_removed() -> None:
    above, below = "[mcp_servers.a]\ncommand = 'a'\n\n", "# about b\n[mcp_servers.b]\nurl = 'b'\n"
    text = f"{above}[mcp_servers.n] # ours\ncommand = 'x'\n[mcp_servers.n.env]\nA = 'b'\n\n{below}"
    assert applied(text, TomlConfig(text, KEYS).remove("n")) == above + below
    value: dict[str, object] = {"command": "y", "env": {"A": "b", "é": "\x7f"}, "n": [1, True, 1.5]}
    changed = applied(text, TomlConfig(text, KEYS).put("n", value))
    assert TomlConfig(changed, KEYS).entries()["n"] == value
    assert applied(changed, TomlConfig(changed, KEYS).remove("n")) == above + below


def test_a_string_that_looks_like_a_table_is_none() -> None:
    text = (
        "a = \"\"\"\n[mcp_servers.n]\n\\\"\"\"\"\nb = [\n'[mcp_servers.n]',\n]\nc = '''\n[x]'''\n"
    )
    after = applied(text, TomlConfig(text, KEYS).put("n", VALUE))
    assert after.startswith(text)
    assert applied(after, TomlConfig(after, KEYS).remove("n")) == text


def test_what_cannot_be_edited_is_refused() -> None:
    for text, reason in {
        "a = ": "not valid TOML",
        "mcp_servers = []": "'mcp_servers' must be a table, not an empty list; mend it first",
        "a = 1\na = 2": "not valid TOML",
        "mcp_servers = {a = {command = 'x'}}\n": "needs an editor",
        "mcp_servers.n.command = 'x'\n": "needs an editor",
        "[mcp_servers]\nn = {command = 'x'}\n": "needs an editor",
        "[mcp_servers.n.env]\n[mcp_servers.n]\nd = 2020-01-01\n": "needs an editor",
    }.items():
        with pytest.raises(CannotEdit) as refused:
            TomlConfig(text, KEYS).put("n", {**VALUE, "at": object()} if "2020" in text else VALUE)
        assert reason in refused.value.message
