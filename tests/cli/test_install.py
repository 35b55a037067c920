"""`install` with a home folder of their own, and hosts' commands as recorders."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml
from mcp import Client, StdioServerParameters

from resource_server.cli.hosts.config_file import MAX_BYTES
from resource_server.runtime import installation
from tests.cli.conftest import Run
from tests.cli.homes import CONFIGURATIONS, everything, failing, put

GOLDEN = Path(__file__).parent / "hosts" / "golden.json"


def decoded(file: Path) -> Any:
    text = file.read_text("utf-8-sig")
    if file.suffix == ".toml":
        return tomllib.loads(text)
    return yaml.safe_load(text) if file.suffix == ".yaml" else json.loads(text)


def with_placeholders(value: Any, folder: Path) -> Any:
    """Return a value in which the paths of this machine have names."""
    text = json.dumps(value)
    text = text.replace(installation.detect().program()[0], "/opt/resource-server").replace(
        str(folder), "/project"
    )
    return json.loads(text)


@pytest.mark.guarantee("configurations-keep-the-rest")
def test_every_host_gets_its_documented_form_and_loses_it_again(
    run: Run, home: Path, folder: Path
) -> None:
    found: dict[str, Any] = {}
    for host, path in CONFIGURATIONS.items():
        entries: dict[str, Any] = {}
        for kind, source in ("program", [folder]), ("url", ["--http", "http://127.0.0.1:8000/mcp"]):
            done = run("install", host, *source, "--name", "project", "--yes")
            assert (done.status, done.err.count("\n")) == (0, kind == "program"), done
            entries[kind] = with_placeholders(decoded(home / path), folder)
            again = run("install", host, *source, "--name", "project", "--yes")
            assert again.out.endswith("already\n")
            options = ["--http", source[1]] if kind == "url" else []
            done = run("uninstall", host, *options, "--yes")
            assert done.status == 0, done
            assert "project" not in (home / path).read_text()
        found[host] = entries
    assert found == json.loads(GOLDEN.read_text()), json.dumps(found, indent=2)


@pytest.mark.guarantee("configurations-keep-the-rest")
def test_the_rest_of_a_file_stays_byte_for_byte(run: Run, home: Path) -> None:
    bom = "\ufeff"
    texts = {
        "vscode": bom
        + '{\n\t// mine\n\t"servers": {\n\t\t"a": {"command": "x"}, // a\n\t},\n'
        '\t"inputs": [1, ],\n}'.replace("\n", "\r\n"),
        "zed": '// Zed\n{ "theme": "x", "context_servers": { "a": {} } }',
        "codex": f"{bom}# mine\r\n[mcp_servers.a]\r\ncommand = 'x'\r\n\r\n[p.'/p']\r\nt = 1\r\n",
        "goose": "# mine\nextensions:\n  a: {type: builtin}  # a\n\nGOOSE_MODEL: x # m\n",
    }
    for host, text in texts.items():
        file = put(home, host, text)
        file.chmod(0o640)
        done = run("install", host, "--name", "n", "--yes")
        assert done.status == 0, done
        backup = file.with_name(f"{file.name}.bak")
        assert backup.name in done.out
        assert backup.read_bytes() == text.encode()
        assert file.stat().st_mode & 0o777 == backup.stat().st_mode & 0o777 == 0o640
        assert file.read_text("utf-8") != text
        assert run("uninstall", host, "--name", "n", "--yes").status == 0
        assert file.read_bytes() == text.encode()
        assert file.with_name(f"{file.name}.bak2").exists()
        assert run("install", host, "--name", "n", "--yes").status == 0
        assert not file.with_name(f"{file.name}.bak3").exists(), "the same file is kept twice"


def test_a_file_that_cannot_be_edited_stays_as_it_is(run: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    install = ("install", "cursor", "--yes")
    for data, reason in {
        b"{": "line 1: not valid JSON at the end of the file; mend it first",
        b'{"mcpServers": []}': (
            "line 1: 'mcpServers' must be an object, not an empty list; mend it first"
        ),
        b'{"a": 1, "mcpServers": {},\n"mcpServers": {}}': (
            "line 2: 'mcpServers' is there twice; remove one of them"
        ),
        '{"a": "é"}'.encode("utf-16"): "not UTF-8; save it as UTF-8 first",
        b" " * (MAX_BYTES + 1): "over 32 MiB, no configuration",
    }.items():
        put(home, "cursor", data)
        assert failing(run, home, *install) == f"~/.cursor/mcp.json: {reason}"
    file = put(home, "cursor", "{}")
    file.chmod(0o444)
    assert "read-only, so it stays as it is" in failing(run, home, *install)
    file.unlink()
    file.symlink_to(file)
    assert "a link that leads to itself" in failing(run, home, *install)
    file.unlink()
    file.mkdir()
    assert failing(run, home, *install) == "~/.cursor/mcp.json: not a file"
    file.rmdir()
    file.parent.rmdir()
    (home / ".cursor").write_text("no folder")
    assert "not a directory" in failing(run, home, *install)
    other = put(home, "windsurf", "{}")
    (home / "second").hardlink_to(other)
    assert "hard links" in failing(run, home, "install", "windsurf", "--yes")


def test_missing_and_read_only_homes_are_refused(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for unusable in "", "relative":
        monkeypatch.setenv("HOME", unusable)
        assert "set HOME" in failing(run, home, "install", "codex", "--print")
    monkeypatch.setenv("HOME", "relative")
    assert "set HOME" in failing(run, home, "install", "zed", "--yes")
    monkeypatch.setenv("HOME", str(home / "missing"))
    assert "the home folder does not exist" in failing(run, home, "install", "zed", "--yes")
    if sys.platform == "linux":
        monkeypatch.setenv("HOME", "/sys")
        assert "cannot be written" in failing(run, home, "install", "cursor", "--yes")


def test_an_edit_goes_through_links(run: Run, home: Path) -> None:
    (home / "dotfiles").mkdir()
    for target, text in ("there", '{"mcpServers": {}}'), ("missing", None):
        file = home / "dotfiles" / target
        if text is not None:
            file.write_text(text)
        (home / ".cursor").mkdir(exist_ok=True)
        link = home / CONFIGURATIONS["cursor"]
        link.unlink(missing_ok=True)
        link.symlink_to(Path("../dotfiles") / target)
        done = run("install", "cursor", "--name", "n", "--yes")
        assert done.status == 0, done
        assert link.is_symlink()
        assert "n" in json.loads(file.read_text())["mcpServers"]
    assert (home / "dotfiles" / "there.bak").read_text() == '{"mcpServers": {}}'


def test_a_name_that_runs_something_else_is_replaced_by_force_only(
    run: Run, home: Path, folder: Path
) -> None:
    text = '{"mcpServers": {"n": {"command": "other", "args": ["--key", "k"]}, "m": {"x": 1}}}'
    file = put(home, "cursor", text)
    install = ("install", "cursor", "--name", "n", "--yes")
    assert failing(run, home, *install) == (
        "~/.cursor/mcp.json: 'n' runs other; --name gives another name, --force replaces it"
    )
    assert "'n' does not start this program" in failing(
        run, home, "uninstall", "cursor", "--name", "n", "--yes"
    )
    assert run(*install, "--force").status == 0
    servers = json.loads(file.read_text())["mcpServers"]
    assert servers["n"]["args"] == ["serve", str(folder)]
    assert servers["m"] == {"x": 1}


def test_an_entry_of_ours_takes_a_new_command_and_keeps_its_other_members(
    run: Run, home: Path, folder: Path
) -> None:
    old = {"command": "uvx", "args": ["--from", "x", "resource-server", "serve", str(folder)]}
    file = put(home, "cursor", json.dumps({"mcpServers": {"n": {**old, "env": {"A": "b"}}}}))
    assert run("install", "cursor", "--name", "n", "--yes").status == 0
    assert json.loads(file.read_text())["mcpServers"]["n"] == {
        "command": installation.detect().program()[0],
        "args": ["serve", str(folder)],
        "env": {"A": "b"},
    }
    assert "'n' serves" in failing(run, home, "install", "cursor", "docs", "--name", "n", "--yes")


def test_sources_are_absolute_and_names_suit_every_host(run: Run, home: Path, folder: Path) -> None:
    (folder / "-o 'x' \"y\" é").mkdir()
    (folder / "shop.db").write_bytes(b"")
    (folder / "mcp-resources.yaml").write_text("roots: {a: {path: docs}}\n")
    for words, name, served in (
        ([], "project", [str(folder)]),
        (["docs"], "docs", [str(folder / "docs")]),
        (["--", "-o 'x' \"y\" é"], "o-x-y", [str(folder / "-o 'x' \"y\" é")]),
        (["mcp-resources.yaml"], "project", [str(folder / "mcp-resources.yaml")]),
        (["shop.db"], "shop", [str(folder / "shop.db")]),
        (["sqlite:///shop.db"], "shop", [f"sqlite:///{folder}/shop.db"]),
        (["postgresql://me@db/shop"], "shop", ["postgresql://me@db/shop"]),
    ):
        done = run("install", "json", *words)
        [(found, entry)] = json.loads(done.out)["mcpServers"].items()
        assert (found, entry["args"]) == (name, ["serve", *served])


def test_variables_that_the_host_may_not_have_are_named(
    run: Run, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "server: {title: '${TITLE}', instructions: '${LACKS:-none}'}\nroots: {a: {path: docs}}\n"
    (folder / "mcp-resources.yaml").write_text(text)
    monkeypatch.setenv("TITLE", "Tea")
    said = (
        "resource-server: Cursor may start without TITLE, which the manifest takes from this "
        "shell; write it into 'env' of the entry\n"
    )
    (home / ".cursor").mkdir()
    for options in ["--print"], ["--yes"], ["--yes"]:
        assert run("install", "cursor", *options).err == said
    (folder / "docs" / "plan.md").touch()
    assert run("install", "cursor", "docs", "--yes").err == ""
    assert said in run("install", "cursor", ".", "docs", "--name", "two", "--yes").err
    file = home / CONFIGURATIONS["cursor"]
    entries = json.loads(file.read_text())
    entries["mcpServers"][folder.name]["env"] = {"TITLE": "Coffee"}
    file.write_text(json.dumps(entries))
    assert run("install", "cursor", "--yes").err == ""


def test_bad_arguments_are_refused(run: Run, home: Path) -> None:
    for arguments, reason in (
        (["cursr"], "unknown host 'cursr'; did you mean 'cursor'?"),
        (["cursor", "missing"], "missing: no such file or folder"),
        (["cursor", ""], ": no such file or folder"),
        (["cursor", "a\0b"], "a\\x00b: no such file or folder"),
        (["cursor", os.fsdecode(b"\xff")], "not a name that can be written in UTF-8"),
        (["cursor", "postgresql://me:s3cret@db/shop"], "has a password"),
        (["cursor", "postgresql://db:1/shop?password=s3cret"], "has a password"),
        (["cursor", "mongodb://me:s3cret@db/shop"], "no such file"),
        (["cursor", "--http", "http://me:s3cret@h/mcp"], "has a login"),
        (["cursor", "--http", "ftp://h/"], "--http takes a URL"),
        (["cursor", "--http", "http://h:x/"], "--http takes a URL"),
        (["cursor", ".", "--http", "http://h/"], "--http takes the place of SOURCE"),
        (["cursor", "--name", "a b"], "--name takes letters"),
        (["cursor", "--name=-a"], "--name takes letters"),
        (["cursor", "--name", "é"], "--name takes letters"),
        (["cursor", "--name", "a" * 41], "--name takes letters"),
        (["gemini", "--name", "a_b"], "a name in Gemini CLI has no '_'"),
        (["cursor", "--scope", "local"], "no scope 'local' in Cursor, which has user, project"),
        (["cursor"], "there is no terminal to ask on; --yes agrees to the change"),
    ):
        yes = ["--yes"] if len(arguments) > 1 else []
        before = everything(home)
        done = run("install", *arguments, *yes)
        assert (done.status in (1, 2), reason in done.err.replace("\n", " ")) == (True, True), done
        assert "s3cret" not in done.out + done.err
        assert everything(home) == before


def test_scopes_have_files_of_their_own(run: Run, home: Path, folder: Path) -> None:
    for scope in "user", "project", "local":
        assert run("install", "claude-code", "--name", scope, "--scope", scope, "--yes").status == 0
    document = json.loads((home / ".claude.json").read_text())
    assert list(document["mcpServers"]) == ["user"]
    assert list(document["projects"][str(folder)]["mcpServers"]) == ["local"]
    assert list(json.loads((folder / ".mcp.json").read_text())["mcpServers"]) == ["project"]
    for scope in "user", "project", "local":
        assert run("uninstall", "claude-code", "--scope", scope, "--yes").status == 0


def test_opencode_files_of_version_2_and_with_comments_are_edited(run: Run, home: Path) -> None:
    file = put(home, "opencode", "{}").with_suffix(".jsonc")
    file.write_text('{"mcp": {"servers": {"a": {"type": "local", "command": ["x"]}}}} // v2\n')
    assert run("install", "opencode", "--name", "n", "--yes").status == 0
    assert '"servers": {"a": {"type": "local", "command": ["x"]}, "n": ' in file.read_text()
    assert run("uninstall", "opencode", "--yes").status == 0
    assert (home / CONFIGURATIONS["opencode"]).read_text() == "{}"


@pytest.fixture
def stubs(tmp_path: Path) -> Callable[[str], list[list[str]]]:
    """Programs of hosts that record their arguments, and fail if there is a file `fail`."""
    (tmp_path / "bin").mkdir()
    for name in "code", "claude", "codex", "gemini":
        program = tmp_path / "bin" / name
        program.write_text(
            f"#!{sys.executable}\nimport json, pathlib, sys\n"
            f"with open({str(tmp_path / 'calls')!r}, 'a') as f:\n"
            "    print(json.dumps([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]), file=f)\n"
            f"if pathlib.Path({str(tmp_path / 'fail')!r}).exists():\n"
            "    sys.exit('first\\nMCP is switched off')\n"
        )
        program.chmod(0o755)

    def calls(_name: str = "") -> list[list[str]]:
        file = tmp_path / "calls"
        found = [json.loads(line) for line in file.read_text().splitlines()]
        file.unlink()
        return found

    return calls


def test_a_host_changes_its_configuration_by_its_own_command(
    run: Run, home: Path, folder: Path, tmp_path: Path, stubs: Callable[[], list[list[str]]]
) -> None:
    command = [installation.detect().program()[0], "serve", str(folder)]
    url = "http://127.0.0.1:8000/mcp"
    hosts = ("vscode", "claude-code", "codex", "gemini")
    for host in hosts:
        assert run("install", host, "--yes").status == 0
    [code, claude, codex, gemini] = stubs()
    assert code[:2] == ["code", "--add-mcp"]
    assert json.loads(code[2]) == {
        "name": "project",
        "type": "stdio",
        "command": command[0],
        "args": command[1:],
    }
    assert claude == ["claude", "mcp", "add", "--scope", "user", "project", "--", *command]
    assert codex == ["codex", "mcp", "add", "project", "--", *command]
    assert gemini == [
        "gemini",
        "mcp",
        "add",
        "--scope",
        "user",
        "project",
        command[0],
        "--",
        *command[1:],
    ]
    for host in hosts:
        assert run("install", host, "--http", url, "--name", "n", "--yes").status == 0
    [code, claude, codex, gemini] = stubs()
    assert json.loads(code[2]) == {"name": "n", "type": "http", "url": url}
    remote = ["mcp", "add", "--scope", "user", "--transport", "http", "n", url]
    assert claude == ["claude", *remote]
    assert gemini == ["gemini", *remote]
    assert codex == ["codex", "mcp", "add", "n", "--url", url]
    assert everything(home) == {} or all(data == b"folder" for data in everything(home).values())

    (tmp_path / "fail").touch()
    text = json.dumps({"mcpServers": {"ours": {"command": command[0], "args": command[1:]}}})
    file = put(home, "claude-code", text)
    done = run("install", "claude-code", "--yes")
    assert (done.status, file.read_text()) == (1, text)
    assert done.err == "resource-server: `claude` failed with status 1: MCP is switched off\n"
    assert (home / ".claude.json.bak").read_text() == text
    (tmp_path / "fail").unlink()
    stubs()
    assert run("uninstall", "claude-code", "--yes").status == 0
    assert stubs() == [["claude", "mcp", "remove", "--scope", "user", "ours"]]


def test_print_changes_nothing_and_has_the_entry_the_command_and_the_link(
    run: Run, home: Path, folder: Path
) -> None:
    command, args = installation.detect().program()[0], ["serve", str(folder)]
    shown: dict[str, str] = {}
    for host in CONFIGURATIONS:
        done = run("install", host, "--print")
        assert done.status == 0
        shown[host] = done.out
    assert everything(home) == {}
    assert shown["vscode"].startswith("VS Code: ~/.config/Code/User/mcp.json\n{")
    assert "\ncommand: code --add-mcp '{" in shown["vscode"]
    link: list[str] = re.findall("^link: (.*)$", "".join(shown.values()), re.MULTILINE)
    assert len(link) == 2, "goose takes links to well-known programs only"
    assert json.loads(unquote(urlsplit(link[0]).query)) == {
        "name": "project",
        "type": "stdio",
        "command": command,
        "args": args,
    }
    query = parse_qs(urlsplit(link[1]).query)
    assert query["name"] == ["project"]
    config = json.loads(base64.b64decode(query["config"][0]))
    assert config == {"command": command, "args": args}
    assert tomllib.loads(shown["codex"].partition("\n")[2].partition("command: codex")[0]) == {
        "mcp_servers": {"project": {"command": command, "args": args}}
    }


def test_what_install_writes_connects_a_real_client(run: Run, home: Path, folder: Path) -> None:
    assert run("install", "cursor", "--yes").status == 0
    [entry] = json.loads((home / CONFIGURATIONS["cursor"]).read_text())["mcpServers"].values()

    async def listed() -> list[str]:
        server = StdioServerParameters(command=entry["command"], args=entry["args"])
        async with Client(server) as client:
            return [resource.name for resource in (await client.list_resources()).resources]

    assert "README.md" in asyncio.run(listed())


def test_an_entry_of_several_sources_answers(run: Run, home: Path, folder: Path) -> None:
    odd, again = folder / "-o 'x' \"y\" é", folder / "docs" / "deep"
    odd.mkdir()
    (folder / "mcp-resources.yaml").write_text("roots: {deep: {path: docs}}\n")
    assert run("install", "cursor", "--yes", "--", odd.name, ".", "docs/deep").status == 0
    done = run("install", "--list", "cursor")
    assert (done.status, again.name) == (0, "deep")
    assert "answers in " in done.out


def test_the_list_says_where_hosts_are_and_whether_entries_answer(
    run: Run, home: Path, folder: Path, tmp_path: Path
) -> None:
    assert run("install", "zed", "--name", "good", "--yes").status == 0
    assert run("install", "zed", "docs", "--name", "lost", "--yes").status == 0
    assert run("install", "cursor", "--scope", "project", "--name", "shared", "--yes").status == 0
    (folder / "docs").rename(folder / "moved")
    program = tmp_path / "resource-server"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)
    put(
        home,
        "windsurf",
        json.dumps(
            {
                "mcpServers": {
                    "other": {"command": "touch", "args": [str(tmp_path / "touched")]},
                    "dumb": {"command": str(program), "args": ["serve"]},
                }
            }
        ),
    )
    put(home, "codex", "a = ")
    done = run("install", "--list")
    assert done.status == 1
    assert not (tmp_path / "touched").exists(), "a program of somebody else was started"
    lines = re.sub(r"in \d+\.\d s with \d+", "in T with N", done.out).splitlines()
    assert lines == [
        "claude-code     not found  ~/.claude.json",
        "claude-desktop  not found  ~/.config/Claude/claude_desktop_config.json",
        "vscode          not found  ~/.config/Code/User/mcp.json",
        "cursor          not found  ~/.cursor/mcp.json",
        f'  shared (project): serves ["{folder}"]; not started, as a project names it',
        "codex           found      ~/.codex/config.toml",
        "  user: ~/.codex/config.toml: not valid TOML: Invalid value (at end of document); "
        "mend it first",
        "gemini          not found  ~/.gemini/settings.json",
        "goose           not found  ~/.config/goose/config.yaml",
        "zed             found      ~/.config/zed/settings.json",
        "  good: answers in T with N resources",
        f"  lost: {folder}/docs: no such file or folder",
        "opencode        not found  ~/.config/opencode/opencode.json",
        "copilot         not found  ~/.copilot/mcp-config.json",
        "windsurf        found      ~/.codeium/windsurf/mcp_config.json",
        "  dumb: it ended without an answer",
        "project         not found  .mcp.json",
    ]
    assert run("install", "--list", "zed").out.count("\n") == 3


def test_a_project_has_an_entry_without_paths_of_this_machine(
    run: Run, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "-odd").mkdir()
    before = everything(home)
    written: dict[str, Any] = {}
    for name, source in ("all", []), ("docs", [folder / "docs"]), ("odd", ["--", "-odd"]):
        assert run("install", "project", "--name", name, "--yes", *source).err == ""
        written[name] = decoded(folder / ".mcp.json")["mcpServers"][name]
    common = {"type": "stdio", "command": "resource-server"}
    assert written == {
        "all": {**common, "args": ["serve", "."]},
        "docs": {**common, "args": ["serve", "docs"]},
        "odd": {**common, "args": ["serve", "./-odd"]},
    }
    assert str(folder) not in (folder / ".mcp.json").read_text()
    assert everything(home) == before
    assert '"serve",' in run("install", "project", "docs", "--print").out
    # Somebody else may have written the file: no server of it is started.
    listed = run("install", "--list", "project")
    assert (listed.status, listed.out.splitlines()[0]) == (
        0,
        "project         found      .mcp.json",
    )
    assert 'all (project): serves ["."]; not started' in listed.out
    for name in written:
        assert run("uninstall", "project", "--name", name, "--yes").status == 0
    assert decoded(folder / ".mcp.json") == {"mcpServers": {}}


def test_the_entry_of_a_project_starts_in_a_copy_of_the_folder(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert run("install", "project", "docs", "--name", "it", "--yes").status == 0
    copy = tmp_path / "elsewhere"
    shutil.copytree(folder, copy)
    entry = decoded(copy / ".mcp.json")["mcpServers"]["it"]
    # The other person has the program on the PATH.
    program = installation.detect().program()
    assert Path(program[0]).name == entry["command"]

    async def listed() -> list[str]:
        parameters = StdioServerParameters(command=program[0], args=entry["args"], cwd=copy)
        async with Client(parameters) as client:
            return [each.uri for each in (await client.list_resources()).resources]

    assert any(uri.startswith("file:///docs/") for uri in asyncio.run(listed()))


def test_what_others_may_not_have_is_not_written_into_a_project(
    run: Run, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "shop.db").touch()
    for words, says in (
        ([".."], "is not in this folder"),
        (["sqlite:///shop.db"], "name its file by a path in this folder"),
        (["postgresql://h/shop"], "install a manifest that names it"),
        (["--scope", "user"], "no scope 'user' in this project, which has project"),
    ):
        assert says in failing(run, home, "install", "project", *words, "--yes")
    assert not (folder / ".mcp.json").exists()
