from __future__ import annotations

from pathlib import Path

import pytest

from resource_server.cli.hosts import config_file
from resource_server.cli.hosts.config_file import ConfigFile
from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.known_hosts import Place
from resource_server.cli.hosts.text_edit import CannotEdit

TEXT = '{"mcpServers": {}}'


def read(home: Path) -> ConfigFile:
    here = Folders(home, home / ".config", home / ".config", home, home, home, home)
    return config_file.read(Place(home / "c.json", ("mcpServers",)), here)


def test_a_file_that_somebody_else_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    for before, meanwhile in ((TEXT, TEXT + " "), (None, TEXT), (TEXT, None)):
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_text(before)
        file = read(tmp_path)
        edits = file.put("n", {})
        path.unlink(missing_ok=True)
        if meanwhile is not None:
            path.write_text(meanwhile)
        with pytest.raises(CannotEdit, match=r"changed meanwhile|no such file"):
            file.write(edits)
        assert (path.read_text() if path.exists() else None) == meanwhile
        assert [each.name for each in tmp_path.glob(".c.json*")] == []


def test_no_backup_is_overwritten_or_followed(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(TEXT)
    (tmp_path / "c.json.bak").write_text("older")
    (tmp_path / "c.json.bak2").symlink_to(tmp_path / "elsewhere")
    file = read(tmp_path)
    assert file.write(file.put("n", {})) == tmp_path / "c.json.bak3"
    assert (tmp_path / "c.json.bak").read_text() == "older"
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "c.json.bak3").read_text() == TEXT


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    file = read(tmp_path)
    assert file.write(file.put("n", {})) is None
    (tmp_path / "plain").touch()
    assert (tmp_path / "c.json").stat().st_mode == (tmp_path / "plain").stat().st_mode
