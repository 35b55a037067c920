"""The table of hosts: where each keeps its servers, in which form, and its own commands."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
    """Commands of a host that change its configuration, as words to fill in."""

    add: str = ""
    """For a program: `{name}`, `{scope}`, `{json}`, and the words of `{command}`."""
    add_url: str = ""
    """For a server at `{url}`."""
    remove: str = ""
    scopes: tuple[Scope, ...] = ("user",)


@dataclass(frozen=True, slots=True)
class Host:
    """One host."""

    id: str
    title: str
    key: str
    """The key above its servers."""
    user: str = ""
    """Its own file, below one of the `Folders`; empty if all is in the project."""
    project: str = ""
    """Its file in a project."""
    user_on_windows: str = ""
    """Its own file there, if that differs."""
    shape: Shape = field(default_factory=Shape)
    programs: tuple[str, ...] = ()
    """Its programs on PATH, the first for `own`."""
    own: OwnCommands | None = None
    link: Callable[[ServerEntry, Shape], str | None] | None = None
    has_local_scope: bool = False
    """Whether its own file has servers of each project, too."""
    newer_key: str | None = None
    """A key below `key` in newer files, which may end in `.jsonc`."""
    takes_underscores: bool = True
    """Whether names of servers may have underscores."""

    def places(self, folders: Folders) -> Mapping[Scope, Place]:
        """Return where it keeps the servers of each scope."""
        path = (folders.is_windows and self.user_on_windows) or self.user
        user = pathlib.Path(path.format_map(asdict(folders)))
        found: dict[Scope, Place] = {"user": self._place(user)} if path else {}
        if self.project:
            found["project"] = self._place(folders.current / self.project)
        if self.has_local_scope:
            keys = ("projects", folders.current.as_posix(), self.key)
            found["local"] = Place(user, keys)
        return found

    def _place(self, file: pathlib.Path) -> Place:
        if self.newer_key is not None and file.with_suffix(".jsonc").exists():
            file = file.with_suffix(".jsonc")
        return Place(file, (self.key,), self.newer_key)

    def own_command(
        self, entry: ServerEntry, scope: Scope, *, removes: bool = False
    ) -> Sequence[str]:
        """Return its command that adds or removes a server, if it has one for the scope."""
        own = self.own if self.own is not None and scope in self.own.scopes else OwnCommands()
        template = own.remove if removes else own.add_url if entry.url else own.add
        if not template:
            return ()
        values = {"name": entry.name, "scope": scope, "url": entry.url}
        command = [self.programs[0]]
        for word in template.split():
            match word:
                case "{json}":
                    named = _with_name(entry, self.shape)
                    command.append(json.dumps(named, ensure_ascii=False))
                case "{command}":
                    command += entry.command
                case "{program}":
                    command.append(entry.command[0])
                case "{arguments}":
                    command += entry.command[1:]
                case _:
                    command.append(word.format_map(values))
        return command

    def is_here(self, folders: Folders) -> bool:
        """Return whether the host is found on this machine: its program, or its folder."""
        if any(shutil.which(program) for program in self.programs):
            return True
        place = next(iter(self.places(folders).values())).file
        has_folder = bool(self.user) and place.parent != folders.home and place.parent.is_dir()
        return place.exists() or has_folder


def _with_name(entry: ServerEntry, shape: Shape) -> dict[str, object]:
    return {"name": entry.name, **shape.written(entry)}


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
_GOOSE = {"enabled": True, "description": _DESCRIPTION, "timeout": 300}
_STDIO: Mapping[str, object] = MappingProxyType({"type": "stdio"})
_TYPED = Shape(program_members=_STDIO, remote_members=MappingProxyType({"type": "http"}))

HOSTS = (
    # https://code.claude.com/docs/en/mcp
    Host(
        "claude-code",
        "Claude Code",
        "mcpServers",
        "{claude}/.claude.json",
        ".mcp.json",
        shape=_TYPED,
        programs=("claude",),
        own=OwnCommands(
            "mcp add --scope {scope} {name} -- {command}",
            "mcp add --scope {scope} --transport http {name} {url}",
            "mcp remove --scope {scope} {name}",
            SCOPES,
        ),
        has_local_scope=True,
    ),
    # https://modelcontextprotocol.io/docs/develop/connect-local-servers
    Host(
        "claude-desktop",
        "Claude Desktop",
        "mcpServers",
        "{applications}/Claude/claude_desktop_config.json",
        shape=Shape(url=None),
    ),
    # https://code.visualstudio.com/docs/agents/reference/mcp-configuration
    Host(
        "vscode",
        "VS Code",
        "servers",
        "{applications}/Code/User/mcp.json",
        ".vscode/mcp.json",
        shape=_TYPED,
        programs=("code",),
        own=OwnCommands("--add-mcp {json}", "--add-mcp {json}"),
        link=_vscode_link,
    ),
    # https://cursor.com/docs/context/mcp
    Host(
        "cursor",
        "Cursor",
        "mcpServers",
        "{home}/.cursor/mcp.json",
        ".cursor/mcp.json",
        programs=("cursor",),
        link=_cursor_link,
    ),
    # https://developers.openai.com/codex/mcp
    Host(
        "codex",
        "Codex",
        "mcp_servers",
        "{codex}/config.toml",
        ".codex/config.toml",
        programs=("codex",),
        own=OwnCommands(
            "mcp add {name} -- {command}", "mcp add {name} --url {url}", "mcp remove {name}"
        ),
    ),
    # https://geminicli.com/docs/tools/mcp-server
    Host(
        "gemini",
        "Gemini CLI",
        "mcpServers",
        "{home}/.gemini/settings.json",
        ".gemini/settings.json",
        shape=Shape(url="httpUrl"),
        programs=("gemini",),
        own=OwnCommands(
            "mcp add --scope {scope} {name} {program} -- {arguments}",
            "mcp add --scope {scope} --transport http {name} {url}",
            "mcp remove --scope {scope} {name}",
            ("user", "project"),
        ),
        takes_underscores=False,
    ),
    # https://block.github.io/goose/docs/guides/config-files
    Host(
        "goose",
        "Goose",
        "extensions",
        "{config}/goose/config.yaml",
        user_on_windows="{config}/Block/goose/config/config.yaml",
        shape=Shape(
            command="cmd",
            environment="envs",
            url="uri",
            program_members={**_STDIO, **_GOOSE},
            remote_members={"type": "streamable_http", **_GOOSE},
            is_named=True,
        ),
        programs=("goose",),
        link=_goose_link,
    ),
    # https://zed.dev/docs/ai/mcp; before 2026 `source` was required
    Host(
        "zed",
        "Zed",
        "context_servers",
        "{config}/zed/settings.json",
        ".zed/settings.json",
        "{config}/Zed/settings.json",
        shape=Shape(program_members={"source": "custom"}),
        programs=("zed", "zeditor"),
    ),
    # https://opencode.ai/docs/mcp-servers and https://opencode.ai/docs/migrate-v1
    Host(
        "opencode",
        "opencode",
        "mcp",
        "{config}/opencode/opencode.json",
        "opencode.json",
        "{home}/.config/opencode/opencode.json",
        shape=Shape(
            arguments=None,
            environment="environment",
            program_members={"type": "local"},
            remote_members={"type": "remote"},
        ),
        programs=("opencode",),
        newer_key="servers",
    ),
    # https://docs.github.com/en/copilot/reference/copilot-cli-reference/cli-config-dir-reference
    Host(
        "copilot",
        "Copilot CLI",
        "mcpServers",
        "{copilot}/mcp-config.json",
        shape=Shape(
            program_members={"type": "local", "tools": ["*"]},
            remote_members={"type": "http", "tools": ["*"]},
        ),
        programs=("copilot",),
    ),
    # https://docs.windsurf.com/windsurf/cascade/mcp
    Host(
        "windsurf",
        "Windsurf",
        "mcpServers",
        "{home}/.codeium/windsurf/mcp_config.json",
        shape=Shape(url="serverUrl"),
        programs=("windsurf",),
    ),
    # No host, but the file that several read: Claude Code, Copilot CLI and VS Code
    Host("project", "this project", "mcpServers", project=".mcp.json", shape=_TYPED),
)
"""All hosts whose configuration is known, with the documentation of its form."""


def found_here(folders: Folders) -> list[Host]:
    """Return the hosts that are found on this machine."""
    return [host for host in HOSTS if host.user and host.is_here(folders)]
