"""Folders of this person and platform, below which hosts keep their configuration."""

from __future__ import annotations

import os
import pathlib
import sys
from dataclasses import dataclass

from resource_server.cli.hosts.text_edit import CannotEdit


@dataclass(frozen=True, slots=True)
class Folders:
    """The home folder, the folder of configurations, and the current folder."""

    home: pathlib.Path
    config: pathlib.Path
    """`~/.config` or `$XDG_CONFIG_HOME`; on Windows `%APPDATA%`."""
    applications: pathlib.Path
    """Of desktop applications: on macOS `~/Library/Application Support`, otherwise `config`."""
    current: pathlib.Path
    codex: pathlib.Path
    """`$CODEX_HOME`, or `~/.codex`."""
    claude: pathlib.Path
    """`$CLAUDE_CONFIG_DIR`, or the home folder."""
    copilot: pathlib.Path
    """`$COPILOT_HOME`, or `~/.copilot`."""
    is_windows: bool = False


def of_this_person() -> Folders:
    """Return the folders that the environment names.

    Raises:
        CannotEdit: there is no home folder.
    """
    try:
        home = pathlib.Path("~").expanduser()
    except RuntimeError:
        home = pathlib.Path()
    # An empty HOME would be the root of the file system.
    if not home.is_absolute() or os.environ.get("HOME") == "":
        raise CannotEdit("the home folder is unknown; set HOME")
    current = pathlib.Path.cwd()
    codex, claude = _folder("CODEX_HOME") or home / ".codex", _folder("CLAUDE_CONFIG_DIR") or home
    copilot = _folder("COPILOT_HOME") or home / ".copilot"
    if sys.platform == "win32":
        config = _folder("APPDATA") or home / "AppData" / "Roaming"
        return Folders(home, config, config, current, codex, claude, copilot, is_windows=True)
    config = _folder("XDG_CONFIG_HOME") or home / ".config"
    is_mac = sys.platform == "darwin"
    applications = home / "Library" / "Application Support" if is_mac else config
    return Folders(home, config, applications, current, codex, claude, copilot)


def _folder(variable: str) -> pathlib.Path | None:
    """Return the absolute folder in an environment variable; a relative one does not count."""
    value = os.environ.get(variable, "")
    return pathlib.Path(value) if os.path.isabs(value) else None  # noqa: PTH117 - "" is no path


def shown(path: pathlib.Path, folders: Folders) -> str:
    """Return a path for messages: from the home or current folder."""
    if path.is_relative_to(folders.current) and folders.current != folders.home:
        return str(path.relative_to(folders.current))
    if path.is_relative_to(folders.home):
        return str(pathlib.Path("~") / path.relative_to(folders.home))
    return str(path)
