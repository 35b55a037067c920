"""A change of a host's configuration: shown, agreed to, and made by the host or by an edit."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from resource_server.cli import console
from resource_server.cli.hosts.config_file import ConfigFile
from resource_server.cli.hosts.known_hosts import Host
from resource_server.cli.hosts.text_edit import CannotEdit, Edit, diff_lines
from resource_server.manifest.wording import one_line

_COMMAND_S = 60.0
"""Timeout of a host's own command."""


class ProgramFailed(click.ClickException):
    """A program of this machine failed; the message has the reason."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one file: by a command of the host, or else by edits."""

    host: Host
    file: ConfigFile
    edits: Sequence[Edit]
    command: Sequence[str] = ()
    """The host's own; empty for edits."""

    def lines(self) -> Iterator[str]:
        """Yield what is shown before the question."""
        if self.command:
            yield f"{self.host.title} is changed by its own command:"
            yield f"  {shlex.join(self.command)}"
            return
        yield f"--- {self.file.name}{'' if self.file.data is not None else ' (new)'}"
        yield from diff_lines(self.file.text, self.edits)

    def make(self) -> str:
        """Make the change; return a note about the backup.

        Raises:
            CannotEdit: the file cannot be written or backed up.
            ProgramFailed: the host's command failed.
        """
        if self.command:
            backup = self.file.back_up()
            run_program(*self.command)
        else:
            backup = self.file.write(self.edits)
        return "" if backup is None else f"; the file before is {backup.name} beside it"


def agreed(change: ConfigChange, *, yes: bool) -> bool:
    """Show a change, and return whether the person agrees.

    Raises:
        CannotEdit: there is no terminal to ask on.
    """
    for line in change.lines():
        console.print_line(console.escaped(line))
    # Where the change cannot be shown it is not made.
    console.flush()
    if yes:
        return True
    if not console.has_person():
        raise CannotEdit("there is no terminal to ask on; --yes agrees to the change")
    if click.confirm("Make this change?", err=True):
        return True
    console.note("nothing was changed")
    return False


def run_program(program: str, *arguments: str, timeout_s: float = _COMMAND_S) -> str:
    """Run a program of this machine, and return its output.

    Raises:
        ProgramFailed: it cannot be run, fails, or does not end in time.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a program from PATH
            [shutil.which(program) or program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProgramFailed(f"`{program}` did not end within {timeout_s:.0f} s") from None
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise ProgramFailed(f"`{program}` cannot be run, {reason}") from None
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        reason = f": {one_line(words[-1])}" if words else ""
        raise ProgramFailed(f"`{program}` failed with status {done.returncode}{reason}")
    return done.stdout.strip()
