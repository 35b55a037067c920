"""The table of hosts: places, commands and links."""

from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.known_hosts import HOSTS, Host, found_here
from resource_server.cli.hosts.server_entry import ServerEntry

BY_ID = {host.id: host for host in HOSTS}


def folders(home: Path, current: Path = Path("/here")) -> Folders:
    return Folders(
        home, home / ".config", home / ".config", current, home / ".codex", home, home / "c"
    )


def test_the_places_on_macos_and_windows_are_those_documented() -> None:
    home, here = Path("/h"), Path("/here")
    mac = Folders(
        home,
        home / ".config",
        home / "Library/Application Support",
        here,
        home / ".codex",
        home,
        home / ".copilot",
    )
    others = home / ".codex", home, home / ".copilot"
    windows = Folders(home, home / "R", home / "R", here, *others, is_windows=True)
    shown = {
        host.id: [str(host.places(each)["user"].file)[3:] for each in (mac, windows)]
        for host in HOSTS
        if host.user
    }
    assert shown == {
        "claude-code": [".claude.json"] * 2,
        "claude-desktop": [
            "Library/Application Support/Claude/claude_desktop_config.json",
            "R/Claude/claude_desktop_config.json",
        ],
        "vscode": ["Library/Application Support/Code/User/mcp.json", "R/Code/User/mcp.json"],
        "cursor": [".cursor/mcp.json"] * 2,
        "codex": [".codex/config.toml"] * 2,
        "gemini": [".gemini/settings.json"] * 2,
        "goose": [".config/goose/config.yaml", "R/Block/goose/config/config.yaml"],
        "zed": [".config/zed/settings.json", "R/Zed/settings.json"],
        "opencode": [".config/opencode/opencode.json"] * 2,
        "copilot": [".copilot/mcp-config.json"] * 2,
        "windsurf": [".codeium/windsurf/mcp_config.json"] * 2,
    }


def test_a_host_without_a_command_for_a_scope_has_none() -> None:
    entry = ServerEntry("n", ("/x/resource-server", "serve", "{name}"))
    assert BY_ID["cursor"].own_command(entry, "user") == ()
    assert BY_ID["codex"].own_command(entry, "project") == ()
    assert BY_ID["vscode"].own_command(entry, "user", removes=True) == ()
    words = BY_ID["codex"].own_command(entry, "user")
    assert words == ["codex", "mcp", "add", "n", "--", *entry.command]


def test_a_link_of_goose_names_well_known_programs_only() -> None:
    goose = BY_ID["goose"]
    assert goose.link is not None
    uvx = ServerEntry("n", ("/x/uvx", "--from", "a b", "resource-server", "serve", "/é"))
    assert goose.link(uvx, goose.shape) == (
        "goose://extension?cmd=uvx&arg=--from&arg=a%20b&arg=resource-server&arg=serve&arg=%2F%C3%A9"
        "&id=n&name=n&description=Folders%20and%20databases%20as%20resources"
    )
    assert goose.link(ServerEntry("n", ("/x/resource-server", "serve")), goose.shape) is None
    remote = goose.link(ServerEntry("n", url="http://h/a?b=c&d"), goose.shape)
    assert remote is not None
    assert "url=http%3A%2F%2Fh%2Fa%3Fb%3Dc%26d&" in remote


@pytest.mark.parametrize("made", ["folder", "file"])
def test_a_host_is_here_by_its_folder_or_file(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    here = folders(tmp_path / "home")
    here.home.mkdir()
    # `.claude.json` is in the home folder itself, which says nothing.
    assert found_here(here) == []
    host: Host = BY_ID["cursor" if made == "folder" else "claude-code"]
    file = host.places(here)["user"].file
    file.parent.mkdir(exist_ok=True)
    if made == "file":
        file.touch()
    assert found_here(here) == [host]
