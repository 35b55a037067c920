"""Folders of a person, by the environment, and how messages show paths below them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from resource_server.cli.hosts import folders
from resource_server.cli.hosts.folders import shown
from resource_server.cli.hosts.known_hosts import HOSTS
from resource_server.cli.hosts.text_edit import CannotEdit


def test_the_environment_moves_configurations(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME":
        monkeypatch.setenv(variable, str(tmp_path / variable))
    here = folders.of_this_person()
    places = {host.id: host.places(here)["user"].file for host in HOSTS if host.user}
    assert places["codex"] == tmp_path / "CODEX_HOME" / "config.toml"
    assert places["claude-code"] == tmp_path / "CLAUDE_CONFIG_DIR" / ".claude.json"
    assert places["copilot"] == tmp_path / "COPILOT_HOME" / "mcp-config.json"
    assert places["zed"] == tmp_path / "XDG_CONFIG_HOME" / "zed" / "settings.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert folders.of_this_person().config == home / ".config"


@pytest.mark.parametrize("unusable", ["", "relative", "./here"])
def test_a_home_that_is_no_absolute_folder_is_refused(
    unusable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", unusable)
    with pytest.raises(CannotEdit, match="set HOME"):
        folders.of_this_person()


def test_a_path_is_shown_from_the_nearest_folder(home: Path) -> None:
    here = replace(folders.of_this_person(), current=home / "project")
    for path, says in (
        (home / "project" / "a", "a"),
        (home / "project", "."),
        (home / "projects" / "a", "~/projects/a"),
        (home, "~"),
        (home.parent / "other", str(home.parent / "other")),
    ):
        assert shown(path, here) == says
    assert shown(home / "a", replace(here, current=home)) == "~/a"
