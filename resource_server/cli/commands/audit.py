"""`resource-server audit`: checks a record of reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from resource_server.audit.verification import Verdict, verified
from resource_server.cli import console, source_arguments


@click.command("audit", short_help="Check that a record of reads is whole.")
@click.argument("action", metavar="verify", type=click.Choice(("verify",)))
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@source_arguments.json_option
def command(action: str, files: Sequence[Path], as_json: bool) -> int:
    """Check the chain of hashes in each record FILE, with the files it was renamed to.

    Exit status 1: a line was changed, or lines are missing. What was cut off the end, and a record
    that was written anew as a whole, cannot be seen.
    """
    verdicts = verified(files)
    if as_json:
        console.print_json(*map(msgspec.to_builtins, verdicts))
    else:
        for verdict in verdicts:
            _print(verdict)
    return int(any(verdict.problem is not None for verdict in verdicts))


def _print(verdict: Verdict) -> None:
    """Print one line for a record, then what it tells of itself."""
    number = "1 file" if len(verdict.files) == 1 else f"{len(verdict.files)} files"
    lines = "1 line" if verdict.lines == 1 else f"{verdict.lines:,} lines follow each other"
    if verdict.problem is not None:
        said = f"BROKEN: {verdict.problem}; {lines} before it"
    elif verdict.first is None:
        said = "empty"
    else:
        said = f"whole: {lines} in {number}, from {verdict.first} to {verdict.last}"
    console.print_line(console.escaped(f"{verdict.record}: {said}"))
    if verdict.lines and verdict.problem is None:
        console.print_line(f"  last hash {verdict.hash}")
    for note in verdict.notes:
        console.print_line(console.escaped(f"  {note}"))
