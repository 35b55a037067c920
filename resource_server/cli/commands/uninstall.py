"""`resource-server uninstall`: disconnects a host."""

from __future__ import annotations

import shutil

import click

from resource_server.cli import console
from resource_server.cli.commands.install import complete_hosts, named_host, place_of
from resource_server.cli.hosts import config_file, folders
from resource_server.cli.hosts.config_change import ConfigChange, agreed
from resource_server.cli.hosts.config_file import ConfigFile
from resource_server.cli.hosts.known_hosts import SCOPES, Host, Scope
from resource_server.cli.hosts.server_entry import ServerEntry
from resource_server.cli.hosts.text_edit import CannotEdit
from resource_server.manifest.wording import printable


@click.command("uninstall", short_help="Disconnect a host.")
@click.argument("host", shell_complete=complete_hosts)
@click.option("--name", metavar="NAME", help="Name of the server, if the host has several.")
@click.option("--scope", type=click.Choice(SCOPES), help="As in `install`.")
@click.option("--http", "url", metavar="URL", help="Disconnect from the server at this URL.")
@click.option("--yes", "-y", is_flag=True, help="Make the change without a question.")
def command(host: str, *, name: str | None, scope: Scope | None, url: str | None, yes: bool) -> int:
    """Remove from HOST the entry that `install` wrote, and nothing else."""
    wanted = named_host(host)
    here = folders.of_this_person()
    scope, place = place_of(wanted, scope, here)
    file = config_file.read(place, here)
    name = _chosen(wanted, file, name, url)
    own = wanted.own_command(ServerEntry(name), scope, removes=True)
    if own and not shutil.which(own[0]):
        own = ()
    change = ConfigChange(wanted, file, () if own else file.remove(name), own)
    file.check()
    if not agreed(change, yes=yes):
        return 1
    note = change.make()
    console.print_line(f"disconnected {wanted.title} from {name}{console.escaped(note)}")
    return 0


def _chosen(host: Host, file: ConfigFile, name: str | None, url: str | None) -> str:
    """Return the name of the one entry to remove, which must be ours."""
    found = [host.shape.read(each, value) for each, value in file.entries().items()]
    ours = [
        entry.name
        for entry in found
        if (entry.served is not None if url is None else url in (entry.url, *entry.command))
    ]
    if name is None and len(ours) == 1:
        return ours[0]
    if name in ours:
        return name
    if any(entry.name == name for entry in found):
        reason = (
            f"'{printable(str(name))}' does not start this program, so it stays; "
            "--http URL removes an entry with a URL"
        )
    elif not ours:
        reason = "has no entry of this program"
    else:
        reason = f"has {', '.join(map(printable, ours))}; --name chooses one"
    raise CannotEdit(f"{file.name}: {reason}")
