"""The table of hosts: where each keeps its servers, in which form, and its own commands."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import quote, urlencode

from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.server_entry import ServerEntry, Shape

Scope: TypeAlias = Literal["user", "project", "local"]
SCOPES: tuple[Scope, ...] = ("user", "project", "local")


@dataclass(frozen=True, slots=True)
class Place:
    """A place for servers: the path of keys in a file."""

    file: pathlib.Path
    keys: tuple[str, ...]
    newer_key: str | None = None
    """A key below them that newer files have."""


@dataclass(frozen=True, slots=True)
class OwnCommands:
    """Commands of a host that change its configuration."""

    program: str
    add: Callable[[ServerEntry, Scope], Sequence[str]]
    remove: Callable[[str, Scope], Sequence[str]] | None
    scopes: tuple[Scope, ...] = ("user",)


@dataclass(frozen=True, slots=True)
class Host:
    """One host."""

    id: str
    title: str
    places: Callable[[Folders], Mapping[Scope, Place]]
    shape: Shape = field(default_factory=Shape)
    programs: tuple[str, ...] = ()
    """Its programs on PATH."""
    own: OwnCommands | None = None
    link: Callable[[ServerEntry, Shape], str | None] | None = None
    takes_underscores: bool = True
    """Whether names of servers may have underscores."""

    def is_here(self, folders: Folders) -> bool:
        """Return whether the host is found on this machine: its program, or its folder."""
        if any(shutil.which(program) for program in self.programs):
            return True
        place = self.places(folders)["user"].file
        return place.exists() or (place.parent != folders.home and place.parent.is_dir())


def _member(
    key: str, user: Callable[[Folders], pathlib.Path], project: str | None = None
) -> Callable[[Folders], Mapping[Scope, Place]]:
    """Return places whose servers are below one key."""

    def places(folders: Folders) -> Mapping[Scope, Place]:
        found: dict[Scope, Place] = {"user": Place(user(folders), (key,))}
        if project is not None:
            found["project"] = Place(folders.current / project, (key,))
        return found

    return places


def _claude_code(folders: Folders) -> Mapping[Scope, Place]:
    user = (folders.claude or folders.home) / ".claude.json"
    return {
        "user": Place(user, ("mcpServers",)),
        "project": Place(folders.current / ".mcp.json", ("mcpServers",)),
        "local": Place(user, ("projects", folders.current.as_posix(), "mcpServers")),
    }


def _opencode(folders: Folders) -> Mapping[Scope, Place]:
    """Either ending is read. Version 2 has `mcp.servers`, and reads the older form, too."""
    config = folders.home / ".config" if folders.is_windows else folders.config
    return {
        "user": Place(_either(config / "opencode"), ("mcp",), "servers"),
        "project": Place(_either(folders.current), ("mcp",), "servers"),
    }


def _either(folder: pathlib.Path) -> pathlib.Path:
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


def _goose(folders: Folders) -> pathlib.Path:
    below = "Block/goose/config/config.yaml" if folders.is_windows else "goose/config.yaml"
    return folders.config / below


def _zed(folders: Folders) -> pathlib.Path:
    return folders.config / ("Zed" if folders.is_windows else "zed") / "settings.json"


def _claude_add(entry: ServerEntry, scope: Scope) -> Sequence[str]:
    if entry.url:
        return ("mcp", "add", "--scope", scope, "--transport", "http", entry.name, entry.url)
    return ("mcp", "add", "--scope", scope, entry.name, "--", *entry.command)


def _gemini_add(entry: ServerEntry, scope: Scope) -> Sequence[str]:
    if entry.url:
        return ("mcp", "add", "--scope", scope, "--transport", "http", entry.name, entry.url)
    program, *arguments = entry.command
    return ("mcp", "add", "--scope", scope, entry.name, program, "--", *arguments)


def _codex_add(entry: ServerEntry, _scope: Scope) -> Sequence[str]:
    if entry.url:
        return ("mcp", "add", entry.name, "--url", entry.url)
    return ("mcp", "add", entry.name, "--", *entry.command)


def _scoped_remove(name: str, scope: Scope) -> Sequence[str]:
    return ("mcp", "remove", "--scope", scope, name)


def _with_name(entry: ServerEntry, shape: Shape) -> dict[str, object]:
    return {"name": entry.name, **shape.written(entry)}


def _vscode_add(entry: ServerEntry, _scope: Scope) -> Sequence[str]:
    return ("--add-mcp", json.dumps(_with_name(entry, _TYPED), ensure_ascii=False))


def _vscode_link(entry: ServerEntry, shape: Shape) -> str:
    return f"vscode:mcp/install?{quote(json.dumps(_with_name(entry, shape)), safe='')}"


def _cursor_link(entry: ServerEntry, shape: Shape) -> str:
    config = base64.b64encode(json.dumps(shape.written(entry)).encode()).decode()
    query = urlencode({"name": entry.name, "config": config})
    return f"cursor://anysphere.cursor-deeplink/mcp/install?{query}"


def _goose_link(entry: ServerEntry, _shape: Shape) -> str | None:
    """Return a deeplink of goose, which takes well-known programs only, by their names."""
    pairs = [("type", "streamable_http"), ("url", entry.url)]
    if entry.command:
        if pathlib.PurePath(entry.command[0]).stem != "uvx":
            return None
        pairs = [("cmd", "uvx"), *(("arg", each) for each in entry.command[1:])]
    pairs += [("id", entry.name), ("name", entry.name), ("description", _DESCRIPTION)]
    return f"goose://extension?{urlencode(pairs, quote_via=quote)}"


_DESCRIPTION = "Folders and databases as resources"
_STDIO: Mapping[str, object] = MappingProxyType({"type": "stdio"})
_TYPED = Shape(program_members=_STDIO, remote_members=MappingProxyType({"type": "http"}))

HOSTS = (
    # https://code.claude.com/docs/en/mcp
    Host(
        "claude-code",
        "Claude Code",
        _claude_code,
        _TYPED,
        ("claude",),
        OwnCommands("claude", _claude_add, _scoped_remove, SCOPES),
    ),
    # https://modelcontextprotocol.io/docs/develop/connect-local-servers
    Host(
        "claude-desktop",
        "Claude Desktop",
        _member("mcpServers", lambda f: f.applications / "Claude/claude_desktop_config.json"),
        Shape(url=None),
    ),
    # https://code.visualstudio.com/docs/agents/reference/mcp-configuration
    Host(
        "vscode",
        "VS Code",
        _member("servers", lambda f: f.applications / "Code/User/mcp.json", ".vscode/mcp.json"),
        _TYPED,
        ("code",),
        OwnCommands("code", _vscode_add, None),
        _vscode_link,
    ),
    # https://cursor.com/docs/context/mcp
    Host(
        "cursor",
        "Cursor",
        _member("mcpServers", lambda f: f.home / ".cursor/mcp.json", ".cursor/mcp.json"),
        programs=("cursor",),
        link=_cursor_link,
    ),
    # https://developers.openai.com/codex/mcp
    Host(
        "codex",
        "Codex",
        _member(
            "mcp_servers",
            lambda f: (f.codex or f.home / ".codex") / "config.toml",
            ".codex/config.toml",
        ),
        programs=("codex",),
        own=OwnCommands("codex", _codex_add, lambda name, _: ("mcp", "remove", name)),
    ),
    # https://geminicli.com/docs/tools/mcp-server
    Host(
        "gemini",
        "Gemini CLI",
        _member("mcpServers", lambda f: f.home / ".gemini/settings.json", ".gemini/settings.json"),
        Shape(url="httpUrl"),
        ("gemini",),
        OwnCommands("gemini", _gemini_add, _scoped_remove, ("user", "project")),
        takes_underscores=False,
    ),
    # https://block.github.io/goose/docs/guides/config-files
    Host(
        "goose",
        "Goose",
        _member("extensions", _goose),
        Shape(
            command="cmd",
            environment="envs",
            url="uri",
            program_members={
                **_STDIO,
                "enabled": True,
                "description": _DESCRIPTION,
                "timeout": 300,
            },
            remote_members={
                "type": "streamable_http",
                "enabled": True,
                "description": _DESCRIPTION,
                "timeout": 300,
            },
            is_named=True,
        ),
        ("goose",),
        link=_goose_link,
    ),
    # https://zed.dev/docs/ai/mcp; before 2026 `source` was required
    Host(
        "zed",
        "Zed",
        _member("context_servers", _zed, ".zed/settings.json"),
        Shape(program_members={"source": "custom"}),
        ("zed", "zeditor"),
    ),
    # https://opencode.ai/docs/mcp-servers and https://opencode.ai/docs/migrate-v1
    Host(
        "opencode",
        "opencode",
        _opencode,
        Shape(
            arguments=None,
            environment="environment",
            program_members={"type": "local"},
            remote_members={"type": "remote"},
        ),
        ("opencode",),
    ),
    # https://docs.windsurf.com/windsurf/cascade/mcp
    Host(
        "windsurf",
        "Windsurf",
        _member("mcpServers", lambda f: f.home / ".codeium/windsurf/mcp_config.json"),
        Shape(url="serverUrl"),
        ("windsurf",),
    ),
)
"""All hosts whose configuration is known, with the documentation of its form."""


def found_here(folders: Folders) -> list[Host]:
    """Return the hosts that are found on this machine."""
    return [host for host in HOSTS if host.is_here(folders)]
