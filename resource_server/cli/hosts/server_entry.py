"""Entries of servers in hosts' configurations: how each host writes a command or a URL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server of a host: the command that starts it, or its URL."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def served(self) -> tuple[str, ...] | None:
        """What this program serves, if the command starts it: the arguments of `serve`."""
        program = re.split(r"[\\/]", self.command[0])[-1].lower() if self.command else ""
        rest = self.command[1:]
        match program.removesuffix(".exe"):
            case "resource-server":
                pass
            case "uvx" | "uv" if ("resource-server", "serve") in (pairs := [*pairwise(rest)]):
                # The package of `--from` may have the same name.
                rest = rest[pairs.index(("resource-server", "serve")) + 1 :]
            case name if name.startswith("python") and rest[:2] == ("-m", "resource_server"):
                rest = rest[2:]
            case _:
                return None
        return rest[1:] if rest[:1] == ("serve",) else None

    def __str__(self) -> str:
        return self.url or " ".join(self.command)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a host writes an entry."""

    command: str = "command"
    arguments: str | None = "args"
    """None: the command and its arguments are one list."""
    environment: str = "env"
    url: str | None = "url"
    """None: the host starts programs only, and a proxy reaches a URL."""
    program_members: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further members of an entry with a command."""
    remote_members: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further members of an entry with a URL."""
    is_named: bool = False
    """Whether the entry repeats its name."""

    def written(self, entry: ServerEntry) -> dict[str, object]:
        """Return an entry as the host writes it."""
        name: dict[str, object] = {"name": entry.name} if self.is_named else {}
        if entry.url and self.url:
            return {**name, **self.remote_members, self.url: entry.url}
        # https://github.com/geelen/mcp-remote
        command = ("npx", "-y", "mcp-remote", entry.url) if entry.url else entry.command
        members: dict[str, object] = {**name, **self.program_members, self.command: list(command)}
        if self.arguments is not None:
            members |= {self.command: command[0], self.arguments: list(command[1:])}
        return members

    def read(self, name: str, value: object) -> ServerEntry:
        """Return an entry that a host has; without command and URL if it has another form."""
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        url: object = members.get(self.url or "", "")
        command: object = members.get(self.command)
        arguments: object = members.get(self.arguments or "", [])
        words = [*_list(command), *_list(arguments)]
        environment: object = members.get(self.environment)
        return ServerEntry(
            name,
            tuple(cast("list[str]", words)) if all(isinstance(w, str) for w in words) else (),
            url if isinstance(url, str) else "",
            _strings(environment),
        )


def _list(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _strings(value: object) -> Mapping[str, str]:
    members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {name: text for name, text in members.items() if isinstance(text, str)}
