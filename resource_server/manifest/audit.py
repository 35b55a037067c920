"""The section `audit` of the manifest: where reads are recorded, and how."""

from __future__ import annotations

import pathlib
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct

from resource_server.access import OPEN, Access
from resource_server.provider import ByteSize
from resource_server.runtime.option_types import OptionChecks, check_options

_MIN_ROTATE = 64 * 1024


class AuditFileOptions(Struct, frozen=True, kw_only=True):
    """A record of what callers read: a line of JSON for each request, chained by hashes."""

    file: pathlib.Path
    """File to which lines are appended, relative to the manifest. Further processes of the same
    server write beside it, to `audit.2.jsonl` and so on."""
    rotate: ByteSize = ByteSize(100 * 1024 * 1024)
    """Size from which it is renamed to `audit.jsonl.1`, and a new one begun."""
    keep: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Renamed files that are kept."""
    on_error: Literal["drop", "refuse"] = "drop"
    """What becomes of requests while no line can be written, as on a full disk: they are answered,
    and the record later says how many have no line, or they are refused."""
    access: Access = OPEN
    """Scopes required to read the last 1,000 requests of the process (one worker's, with
    `--workers`), `activity://server/`, which does not exist without."""

    option_checks: ClassVar[OptionChecks] = {"rotate": lambda size: _check_size(size)}

    def __post_init__(self) -> None:
        check_options(self)


Audit: TypeAlias = AuditFileOptions | Literal["stderr"] | None


def _check_size(size: int) -> None:
    if size < _MIN_ROTATE:
        raise ValueError(f"expected {_MIN_ROTATE // 1024}KiB or more")
