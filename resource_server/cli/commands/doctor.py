"""`resource-server doctor`: reports whether this machine has what the server needs."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import click
import msgspec

from resource_server import __version__, media_types
from resource_server.cli import console, log_output, source_arguments
from resource_server.cli.hosts import folders, known_hosts
from resource_server.cli.hosts.config_change import ProgramFailed, run_program
from resource_server.cli.hosts.installed_entries import installed_entries
from resource_server.cli.hosts.text_edit import CannotEdit
from resource_server.errors import ConversionError
from resource_server.manifest.wording import one_line
from resource_server.runtime import extras, installation, openat2

State: TypeAlias = Literal["ok", "missing", "problem"]
_PROGRAM_S = 10.0
_MIN_NODE = 22
"""Of the MCP Inspector."""
_SYSTEM = Path("/proc")


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at."""

    name: str
    state: State
    """`missing`: not here, and not needed; `problem`: needed, and does not work."""
    text: str
    command: str | None = None
    """What mends it."""


@click.command("doctor", short_help="Report what this machine has, and what is missing.")
@source_arguments.json_option
def command(as_json: bool) -> int:
    """Report what the server finds on this machine, what is missing, and what adds it.

    Exit status 1: something that is needed does not work.
    """
    log_output.log_to_stderr(0)
    findings: list[Finding] = []
    for finding in _findings():
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        console.print_indented_json({"version": __version__, "findings": findings})
    return 1 if any(each.state == "problem" for each in findings) else 0


def _print(finding: Finding) -> None:
    mark = f"{finding.state:8}"
    mark = console.emphasised(mark) if finding.state == "problem" else console.faint(mark)
    text = console.escaped(finding.text)
    console.print_line(f"{mark} {console.escaped(finding.name):16}  {text}")
    if finding.command is not None:
        console.print_line(f"{'':27}{console.escaped(finding.command)}")


def _findings() -> Iterator[Finding]:
    found = installation.detect()
    kind = f"{platform.python_implementation()} {platform.python_version()}, {sys.executable}"
    yield Finding("Python", "ok", kind)
    yield Finding("resource-server", "ok", f"{__version__}, by {found.way} from {found.origin}")
    yield from _kernel()
    yield _libmagic()
    for extra in extras.PACKAGES:
        missing = extras.missing(extra)
        if missing:
            text, add = f"lacks {', '.join(missing)}; add it:", extras.install_command(extra)
            yield Finding(f"extra {extra}", "missing", text, add)
        else:
            yield Finding(f"extra {extra}", "ok", ", ".join(extras.PACKAGES[extra]))
    yield _node()
    yield from _hosts()


def _kernel() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.release()}"
    if openat2.system_call() is not None:
        yield Finding("openat2", "ok", f"paths are resolved by the kernel, {system}")
    else:
        yield Finding("openat2", "missing", f"paths are resolved step by step, {system}")
    yield from _confinement()
    limits = inotify_limits()
    if limits is None:
        yield Finding("inotify", "missing", "changes of folders are found in other ways")
        return
    text = (
        f"{limits.watches:,} of {limits.max_watches:,} watches and {limits.instances:,} of "
        f"{limits.max_instances:,} instances in use"
    )
    if limits.short is not None:
        bound = limits.max_watches if limits.short == "watches" else limits.max_instances
        command = f"sysctl fs.inotify.max_user_{limits.short}={2 * bound}"
        yield Finding("inotify", "problem", f"{text}; raise the limit:", command)
    else:
        yield Finding("inotify", "ok", text)


def _confinement() -> Iterator[Finding]:
    """Start a worker that converts documents, and report its protections."""
    from resource_server.conversion import pool, registry, sandbox

    try:
        there = pool.shared().protections(registry.PLAIN_TEXT.reference)
    except ConversionError as error:
        yield Finding("converters", "problem", f"no worker can be started: {one_line(error)}")
        return
    for name in sandbox.PROTECTIONS:
        if name in there:
            yield Finding(name, "ok", "workers that convert documents are confined")
        else:
            yield Finding(name, "missing", "workers that convert documents are less confined")


def _libmagic() -> Finding:
    problem = media_types.magic_problem()
    if problem is None:
        return Finding("libmagic", "ok", "media types of files with unknown names")
    add = installation.detect().package_command("python-magic pylibmagic")
    return Finding("libmagic", "problem", problem, add)


def _node() -> Finding:
    node = shutil.which("node")
    if node is None:
        return Finding("Node", "missing", "not found; only the MCP Inspector needs it")
    try:
        version = run_program(node, "--version", timeout_s=_PROGRAM_S)
    except ProgramFailed:
        return Finding("Node", "missing", f"{node} does not run; only the MCP Inspector needs it")
    major = version.removeprefix("v").partition(".")[0]
    if not major.isdecimal() or int(major) < _MIN_NODE:
        text = f"{one_line(version)}; the MCP Inspector needs {_MIN_NODE} or later"
        return Finding("Node", "missing", text)
    text = "npx @modelcontextprotocol/inspector resource-server serve ."
    return Finding("Node", "ok", f"{version}; the MCP Inspector tries a server:", text)


def _hosts() -> Iterator[Finding]:
    try:
        here = folders.of_this_person()
    except CannotEdit as error:
        yield Finding("hosts", "missing", error.message)
        return
    found = known_hosts.found_here(here)
    if not found:
        yield Finding("hosts", "missing", "none is found on this machine")
    for each, entries in installed_entries(found, here, source_arguments.current_timing()):
        if not entries:
            connect = f"resource-server install {each.id} ."
            yield Finding(each.title, "ok", "found, and not connected; connect it:", connect)
        for entry in entries:
            state: State = "ok" if entry.is_well else "problem"
            yield Finding(each.title, state, f"{entry.title}: {entry.words}")


@dataclass(frozen=True, slots=True)
class InotifyLimits:
    """Limits of the user, and what the user's processes use that this one may look at."""

    max_watches: int
    max_instances: int
    watches: int
    instances: int

    @property
    def short(self) -> Literal["watches", "instances"] | None:
        """The limit that is over 90 % used; None if neither is."""
        if self.watches > 0.9 * self.max_watches:
            return "watches"
        return "instances" if self.instances > 0.9 * self.max_instances else None


def inotify_limits(system: Path = _SYSTEM) -> InotifyLimits | None:
    """Return the limits; None where the system has no inotify."""
    folder = system / "sys" / "fs" / "inotify"
    try:
        watches = int((folder / "max_user_watches").read_text())
        instances = int((folder / "max_user_instances").read_text())
    except (OSError, ValueError):
        return None
    used = [0, 0]
    for process in system.glob("[0-9]*"):
        # Processes end meanwhile, and those of others are not shown.
        with suppress(OSError):
            if process.stat().st_uid == os.getuid():
                _add(process, used)
    return InotifyLimits(watches, instances, *used)


def _add(process: Path, used: list[int]) -> None:
    for descriptor in (process / "fd").iterdir():
        with suppress(OSError):
            if str(descriptor.readlink()) == "anon_inode:inotify":
                used[0] += (process / "fdinfo" / descriptor.name).read_text().count("inotify wd:")
                used[1] += 1
