"""The notes of `check` on replicas of a server over HTTP, and on the record of reads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from resource_server import uris
from resource_server.catalog.mount import Mount, log_failure
from resource_server.cli import source_arguments
from resource_server.manifest import Manifest
from resource_server.manifest.audit import AuditFileOptions
from resource_server.manifest.http import Http

_MAX_NAMED = 5
_POLL = re.compile(r"poll\b(?: every ([\d.]+) s)?")
_NO_KEY = (
    "without 'key' in server, ids of sessions, masks of kind 'hash' and calls that wait for an "
    "answer are valid in one process only: neither in another replica nor after a restart"
)


async def replica_notes(manifest: Manifest, mounts: Sequence[Mount]) -> Sequence[str]:
    """Return the notes; none without an `http` section."""
    if manifest.http == Http():
        return ()
    notes = [] if manifest.server.secret.is_lasting else [_NO_KEY]
    watched = [each for each in mounts if each.problem is None and each.can_watch]
    intervals = [(each.name, await _interval_s(each)) for each in watched]
    polled = [(name, interval_s) for name, interval_s in intervals if interval_s is not None]
    if watched:
        events = len(watched) - len(polled)
        notes.append(
            "each replica observes the sources itself while clients listen: "
            f"{events} by events, {len(polled)} polled{_cost(polled)}"
        )
    return notes


def record_notes(manifest: Manifest) -> Sequence[str]:
    """Return the place of the record of reads, and its readers. Empty without a record."""
    audit = manifest.audit
    if audit is None:
        return ()
    if not isinstance(audit, AuditFileOptions):
        return ("reads are recorded on standard error",)
    refused = "refused" if audit.on_error == "refuse" else "answered without a line"
    notes = [
        f"reads are recorded in {audit.file.name}, and {refused} while it cannot be written",
    ]
    if audit.access.scopes and not manifest.http.auth:
        notes.append("activity://server/ does not exist over HTTP without http.auth")
    return notes


def record_problems(manifest: Manifest) -> Sequence[str]:
    """Return why a server of this manifest could not record reads now."""
    audit = manifest.audit
    if not isinstance(audit, AuditFileOptions):
        return ()
    # Imported here: most manifests have no record.
    from resource_server.audit.audit_file import place_problem

    problem = place_problem(audit.file.absolute())
    at = ("audit", "file")
    return () if problem is None else (str(manifest.positions.problem(at, problem)),)


async def _interval_s(mount: Mount) -> float | None:
    """Return the shortest time between two polls; None for a mount with events."""
    if found := _POLL.match(mount.provider.watched_by or ""):
        return float(found[1] or source_arguments.current_timing().watch_poll_s)
    try:
        details: Mapping[str, Any] = (await mount.provider.metadata(())).details or {}
        interval_s = float(details["changes"]["interval"])
    except (LookupError, TypeError, ValueError):  # a plugin's may be anything
        return None
    except Exception as error:  # the code of a plugin
        log_failure(error, f"asking mount {mount.name} how it is observed")
        return None
    return interval_s if 0 < interval_s < math.inf else None


def _cost(polled: Sequence[tuple[str, float]]) -> str:
    if not polled:
        return ""
    polls = math.ceil(sum(60 / interval_s for _, interval_s in polled))
    named = [f"{uris.display(name)} every {s:g} s" for name, s in polled[:_MAX_NAMED]]
    more = ", …" if len(polled) > _MAX_NAMED else ""
    return f", at most {polls:,} polls a minute ({', '.join(named)}{more})"
