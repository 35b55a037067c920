"""Structured options of a folder in the manifest, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import Struct

from resource_server import uris
from resource_server.access import OPEN, Access
from resource_server.documents.encoding import canonical_encoding
from resource_server.documents.options import check_patterns
from resource_server.provider import Annotations, ByteSize
from resource_server.runtime.near_name import as_typed
from resource_server.runtime.option_types import OptionChecks, check_options

WatchMode = Literal["auto", "inotify", "watchfiles", "poll", "off"]
SkillMode = Literal["auto", "off"]
SymlinkPolicy = Literal["deny", "within-root"]

_WILDCARDS = frozenset("*?")
"""Without `[`: web frameworks use directories such as `[slug]` as routes."""


class DirectoryOptions(Struct, frozen=True):
    """Options of one directory and all below it; None inherits.

    `title` and `description` apply to the directory alone. Patterns are relative to the directory
    and replace inherited ones. `hidden` and `gitignore` apply to the directory itself, too, so they
    can expose an ignored or dotted directory.
    """

    title: str | None = None
    """Display name."""
    description: str | None = None
    """Description for people and models."""
    annotations: Annotations | None = None
    """Audience and priority of its contents."""
    listed: bool = True
    """False leaves it and all below out of the global listing."""
    readable: bool | None = None
    """False lists its documents but refuses to read them."""
    exposed: bool = True
    """False hides it and all below."""
    access: Access = OPEN
    """Scopes that a caller needs to see it and all below."""
    include: tuple[str, ...] | None = None
    """As for the root, relative to the directory."""
    exclude: tuple[str, ...] | None = None
    """As for the root, relative to the directory."""
    gitignore: bool | None = None
    """As for the root. False also exposes the directory itself if an ignore file names it."""
    hidden: bool | None = None
    """As for the root. True also exposes the directory itself if its name begins with a dot."""
    max_size: ByteSize | None = None
    """As for the root."""
    encoding: str | None = None
    """As for the root."""
    optional: bool = False
    """Whether the directory may come later. Otherwise an entry without a directory is a mistake; if
    it hides anything and a directory has a name like it, nothing of the folder is served."""

    option_checks: ClassVar[OptionChecks] = {
        "include": lambda patterns: check_patterns("include", patterns or ()),
        "exclude": lambda patterns: check_patterns("exclude", patterns or ()),
        "encoding": lambda name: name is None or canonical_encoding(name),
    }

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def protects(self) -> bool:
        """Whether anything would be seen, by anybody, that is not seen because of it."""
        narrowing = (self.include, self.exclude, self.gitignore or None)
        return (
            not (self.exposed and self.listed)
            or bool(self.access.scopes)
            or False in (self.readable, self.hidden)
            or any(each is not None for each in narrowing)
        )


def directory_keys(directories: Mapping[str, DirectoryOptions]) -> dict[str, DirectoryOptions]:
    """Return the options by normalised path below the root: no slash at either end, no `.`.

    Names are as people type them (`as_typed`).

    Raises:
        ValueError: a path is absolute, empty, a pattern, given twice, or contains `..`.
    """
    found: dict[str, DirectoryOptions] = {}
    for written, options in directories.items():
        segments = [segment for segment in written.split("/") if segment not in ("", ".")]
        key = as_typed("/".join(segments))
        if not segments or written.startswith("/") or not all(map(uris.is_segment, segments)):
            raise ValueError(f"directories: {written!r} is no path below the root, as docs/api")
        if not _WILDCARDS.isdisjoint(key):
            raise ValueError(
                f"directories.{written}: is a pattern and names no directory; write the path of "
                "each, or the pattern into 'exclude'"
            )
        if key in found:
            raise ValueError(f"directories: {written!r} is given twice")
        found[key] = options
    return found
