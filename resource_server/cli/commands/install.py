"""`resource-server install`: connects a host to sources, and tells which hosts are connected."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import click

from resource_server.cli import console, log_output, source_arguments, source_client
from resource_server.cli.hosts import config_file, folders
from resource_server.cli.hosts.config_change import ConfigChange, agreed
from resource_server.cli.hosts.folders import Folders
from resource_server.cli.hosts.installed_entries import installed_entries
from resource_server.cli.hosts.known_hosts import HOSTS, SCOPES, Host, Place, Scope
from resource_server.cli.hosts.server_entry import ServerEntry, Shape
from resource_server.cli.hosts.text_edit import CannotEdit
from resource_server.manifest import sources
from resource_server.manifest.databases.database_url import (
    hidden_url,
    is_database_url,
    parse_database_url,
    redacted_url,
    resolve_database_url,
)
from resource_server.manifest.wording import printable, quoted_value, unknown_name
from resource_server.runtime import installation

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""Hosts make names of tools from it, of at most 64 characters."""
_WITHOUT_LOGIN = (
    "has a password, which would be written into the host's configuration; "
    "write a manifest with ${VARIABLE} in its place, and install that"
)


def complete_hosts(_context: click.Context, _option: object, typed: str) -> list[str]:
    """Return the names of hosts that begin so, for a shell."""
    return [name for name in (*(host.id for host in HOSTS), "json") if name.startswith(typed)]


@click.command("install", short_help="Connect a host, or tell which hosts are connected.")
@click.argument("host", required=False, shell_complete=complete_hosts)
@source_arguments.sources_argument
@click.option("--name", metavar="NAME", help="Name of the server in the host.")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    help="Where the host has it: everywhere (user, the default), or in this folder, with others "
    "(project) or alone (local).",
)
@click.option("--http", "url", metavar="URL", help="Connect to a server that runs at this URL.")
@click.option("--print", "prints", is_flag=True, help="Print the entry; change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Make the change without a question.")
@click.option("--force", is_flag=True, help="Replace another server of this name.")
@click.option("--list", "lists", is_flag=True, help="Tell which hosts are connected, and answer.")
def command(
    host: str | None,
    words: Sequence[str],
    *,
    name: str | None,
    scope: Scope | None,
    url: str | None,
    prints: bool,
    yes: bool,
    force: bool,
    lists: bool,
) -> int:
    """Connect HOST to SOURCE, or without HOST tell which hosts are connected.

    HOST is claude-code, claude-desktop, vscode, cursor, codex, gemini, goose, zed, opencode,
    copilot, windsurf, or json, which prints the entry for any other. With project, an entry
    without paths of this machine is written into .mcp.json in this folder, for others who have it.

    The change is shown and made once you agree. Everything else in the host's configuration stays
    as it is, and the file before is kept beside it.
    """
    if host is None or lists:
        return _list([named_host(host)] if host is not None else HOSTS)
    if url is not None and words:
        raise console.usage_error("--http takes the place of SOURCE")
    is_shared = host == "project"
    entry = _remote(url, name) if url is not None else _local(words, name, is_shared=is_shared)
    if host == "json":
        console.print_indented_json({"mcpServers": {entry.name: Shape().written(entry)}})
        return 0
    wanted = named_host(host)
    here = folders.of_this_person()
    scope, place = place_of(wanted, scope, here)
    if "_" in entry.name and not wanted.takes_underscores:
        raise console.usage_error(f"a name in {wanted.title} has no '_'; --name gives another")
    log_output.log_to_stderr(0)
    manifest = source_client.report_mistakes(words) if url is None else None
    variables = manifest.variables if manifest is not None else frozenset[str]()
    if prints:
        _print(wanted, entry, scope, folders.shown(place.file, here))
        _note_variables(wanted, variables)
        return 0
    file = config_file.read(place, here)
    given = wanted.shape.read(entry.name, file.entries().get(entry.name)).environment
    _note_variables(wanted, variables - given.keys())
    return _install(wanted, entry, scope, file, yes=yes, force=force)


def named_host(name: str) -> Host:
    """Return a host by its name on the command line."""
    for host in HOSTS:
        if host.id == name:
            return host
    known = [*(host.id for host in HOSTS), "json"]
    raise console.usage_error(unknown_name(f"host {quoted_value(name)}", name, known))


def place_of(host: Host, scope: Scope | None, here: Folders) -> tuple[Scope, Place]:
    """Return where a host keeps the servers of a scope, by default of its first."""
    places = host.places(here)
    scope = scope or next(iter(places))
    if scope not in places:
        raise console.usage_error(
            f"no scope '{scope}' in {host.title}, which has {', '.join(places)}"
        )
    return scope, places[scope]


def _local(words: Sequence[str], name: str | None, *, is_shared: bool) -> ServerEntry:
    """Return the entry that serves sources, with absolute paths unless others share it."""
    found = [_source(word) for word in words or ["."]]
    arguments = [_shared(each.argument) if is_shared else each.argument for each in found]
    program = installation.detect().program(is_shared=is_shared)
    return ServerEntry(
        _checked_name(name) or _short(found[0].name), (*program, "serve", *arguments)
    )


def _shared(argument: str) -> str:
    """Return an argument of `serve` that means the same in this folder on another machine."""
    path, here = pathlib.Path(argument), pathlib.Path.cwd()
    if sources.is_object_url(argument):
        return argument
    if not path.is_absolute():
        raise CannotEdit(
            f"{printable(redacted_url(argument), longest=200)}: others may have the database "
            "elsewhere; name its file by a path in this folder, or install a manifest that names it"
        )
    if not path.is_relative_to(here):
        raise CannotEdit(
            f"{printable(path.name)} is not in this folder, which is all that is shared"
        )
    relative = path.relative_to(here).as_posix()
    return f"./{relative}" if relative.startswith("-") or ":" in relative else relative


def _remote(url: str, name: str | None) -> ServerEntry:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_usable, parts = False, urlsplit("")
    if not is_usable or not url.isascii() or not url.isprintable() or " " in url:
        raise console.usage_error("--http takes a URL such as http://127.0.0.1:8000/mcp")
    if parts.username or parts.password:
        raise CannotEdit("--http: the URL has a login, which hosts do not send; leave it out")
    return ServerEntry(_checked_name(name) or "resource-server", url=url)


@dataclass(frozen=True, slots=True)
class _Source:
    """A source as an argument of `serve`, and its name."""

    argument: str
    name: str


def _source(word: str) -> _Source:
    if sources.is_object_url(word):
        return _Source(word, sources.find_manifest(word).mounts[0].name)
    if is_database_url(word, is_source=True):
        try:
            url = resolve_database_url(parse_database_url(word), pathlib.Path.cwd())
        except ValueError as error:
            raise console.usage_error(f"{hidden_url(word)}: {error}") from None
        if url.secrets:
            raise CannotEdit(f"{printable(redacted_url(word), longest=200)} {_WITHOUT_LOGIN}")
        return _Source(url.text, sources.database_name(url)[0])
    shown = printable(redacted_url(word), longest=200)
    try:
        path = pathlib.Path(os.path.abspath(word))  # noqa: PTH100 - links stay as they are
        is_there = bool(word) and path.exists()
        str(path).encode()
    except ValueError:
        raise CannotEdit(f"{shown}: not a name that can be written in UTF-8") from None
    if not is_there:
        raise CannotEdit(f"{shown}: no such file or folder")
    if path.is_dir():
        return _Source(str(path), sources.mount_name(path)[0])
    is_own = path.name in sources.FILE_NAMES
    return _Source(str(path), sources.mount_name(path.parent)[0] if is_own else path.stem)


def _short(name: str) -> str:
    """Return a name that every host takes."""
    return re.sub("[^A-Za-z0-9]+", "-", name)[:40].strip("-") or "resource-server"


def _checked_name(name: str | None) -> str | None:
    if name is not None and not _NAME.fullmatch(name):
        raise console.usage_error(
            "--name takes letters, digits, '-' and '_', at most 40, and no '-' first"
        )
    return name


def _print(host: Host, entry: ServerEntry, scope: Scope, file: str) -> None:
    """Print an entry in the form of the host, its own command and its link."""
    console.print_line(f"{host.title}: {console.escaped(file)}")
    place = host.places(folders.of_this_person())[scope]
    blank = config_file.blank(place)
    edits = blank.put(entry.name, host.shape.written(entry))
    console.write_text(edits[0].text)
    if own := host.own_command(entry, scope):
        console.print_line(f"command: {console.escaped(shlex.join(own))}")
    link = host.link(entry, host.shape) if host.link is not None else None
    if link is not None:
        console.print_line(f"link: {link}")


def _note_variables(host: Host, names: Set[str]) -> None:
    """Say which variables of this shell a manifest needs that the host may not have."""
    if names:
        console.note(
            f"{host.title} may start without {', '.join(sorted(names))}, which the manifest takes "
            f"from this shell; write it into '{host.shape.environment}' of the entry"
        )


def _install(
    host: Host,
    entry: ServerEntry,
    scope: Scope,
    file: config_file.ConfigFile,
    *,
    yes: bool,
    force: bool,
) -> int:
    written = host.shape.written(entry)
    entries = file.entries()
    own = host.own_command(entry, scope)
    if entry.name in entries or (own and not shutil.which(own[0])):
        own = ()
    if entry.name in entries:
        present: object = entries[entry.name]
        members = cast("dict[str, object]", present) if isinstance(present, dict) else {}
        if members | written == members:
            console.print_line(f"{entry.name} is in {host.title} already")
            return 0
        old = host.shape.read(entry.name, members)
        is_same = entry.served == old.served if entry.command else entry.url == old.url
        if not is_same and not force:
            if old.served is not None:
                what = f"serves {', '.join(map(redacted_url, old.served))}"
            else:
                what = f"runs {old.command[0]}" if old.command else "is another server"
            raise CannotEdit(
                f"{file.name}: '{entry.name}' {printable(what, longest=200)}; "
                "--name gives another name, --force replaces it"
            )
        written = members | written if is_same else written
    change = ConfigChange(host, file, () if own else file.put(entry.name, written), own)
    file.check()
    if host.user and not host.is_here(folders.of_this_person()):
        console.note(f"{host.title} is not found on this machine")
    if not agreed(change, yes=yes):
        return 1
    note = change.make()
    console.print_line(f"connected {host.title} as {entry.name}{console.escaped(note)}")
    return 0


def _list(hosts: Sequence[Host]) -> int:
    """Print where each host is, and whether what is installed in it answers."""
    here = folders.of_this_person()
    status = 0
    for host, entries in installed_entries(hosts, here, source_arguments.current_timing()):
        place = next(iter(host.places(here).values()))
        state = "found" if host.is_here(here) else "not found"
        console.print_line(
            f"{host.id:14}  {state:9}  {console.escaped(folders.shown(place.file, here))}"
        )
        for entry in entries:
            status |= not entry.is_well
            console.print_line(f"  {console.escaped(f'{entry.title}: {entry.words}')}")
    return status
