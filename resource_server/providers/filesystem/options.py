"""Options of a folder in the manifest, beyond those that are plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from resource_server.access import OPEN, Access
from resource_server.provider import Annotations, ByteSize
from resource_server.providers.filesystem.encoding import canonical_encoding
from resource_server.providers.filesystem.exposure.patterns import Patterns

WatchMode = Literal["auto", "inotify", "watchfiles", "poll", "off"]
SymlinkPolicy = Literal["deny", "within-root"]

_WILDCARDS = frozenset("*?")
"""Not `[`: directories such as `[slug]` are what web frameworks make routes of."""
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What is shown although it looks like a secret: patterns of the deny-list, or paths."""

    allow: tuple[str, ...] = ()
    """Patterns of the deny-list, word for word, or patterns of harmless files."""

    def __post_init__(self) -> None:
        check_patterns("secrets.allow", self.allow)


@dataclass(frozen=True, slots=True)
class DirectoryOptions:
    """What is different in one directory and below; None inherits.

    `title` and `description` are the directory's own. Patterns are relative to the directory and
    replace those from above. `hidden` and `gitignore` hold for the directory itself, too: so an
    ignored or dotted directory is shown by naming it.
    """

    title: str | None = None
    """Name for people."""
    description: str | None = None
    """What it holds, for people and models."""
    annotations: Annotations | None = None
    """For whom what is in it is, and how important."""
    listed: bool = True
    """False keeps it and all below out of the global listing."""
    readable: bool | None = None
    """False lists its documents and never reads them."""
    exposed: bool = True
    """False: as if it did not exist."""
    access: Access = OPEN
    """Who may see it and all below."""
    include: tuple[str, ...] | None = None
    """As for the root, relative to the directory."""
    exclude: tuple[str, ...] | None = None
    """As for the root, relative to the directory."""
    gitignore: bool | None = None
    """As for the root. False also shows the directory itself where an ignore file names it."""
    hidden: bool | None = None
    """As for the root. True also shows the directory itself if its name begins with a dot."""
    max_size: ByteSize | None = None
    """As for the root."""
    encoding: str | None = None
    """As for the root."""

    def __post_init__(self) -> None:
        check_patterns("include", self.include or ())
        check_patterns("exclude", self.exclude or ())
        if self.encoding is not None:
            canonical_encoding(self.encoding)


def check_patterns(option: str, patterns: Sequence[str]) -> None:
    """Refuse patterns that nothing can match.

    Raises:
        ValueError: names the pattern, for the manifest's author.
    """
    parsed = Patterns(patterns)
    for index, pattern in enumerate(patterns):
        if index in parsed.unusable or index not in parsed.lines:
            raise ValueError(f"{option}: {pattern!r} is no pattern that can match anything")


def check_types(types: Mapping[str, str]) -> None:
    """Refuse values that are not media types.

    Raises:
        ValueError: names the pattern and its value, for the manifest's author.
    """
    for pattern, media_type in types.items():
        if not _MEDIA_TYPE.fullmatch(media_type):
            raise ValueError(f"types: {media_type!r} for {pattern!r} is no media type as text/html")


def directory_keys(directories: Mapping[str, DirectoryOptions]) -> dict[str, DirectoryOptions]:
    """Return the options by normal path below the root: no slash at either end, no `.`.

    Raises:
        ValueError: a path that is absolute, empty, leads upwards or is given twice, or a pattern.
    """
    found: dict[str, DirectoryOptions] = {}
    for written, options in directories.items():
        segments = [segment for segment in written.split("/") if segment not in ("", ".")]
        key = "/".join(segments)
        if not segments or written.startswith("/") or ".." in segments or "\0" in written:
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
