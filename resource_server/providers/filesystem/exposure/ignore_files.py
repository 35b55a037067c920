"""Ignore files of a directory: `.gitignore`, `.ignore` and `.mcpignore`, as git reads its own.

A later one of these files overrides an earlier one, and a nearer directory a farther one. Nothing
above the root is read, nor the user's `core.excludesFile`; `.git/info/exclude` is read if the root
is the top of a repository.

Ignore files may be hostile, and compiling a megabyte of patterns takes minutes. If one is longer or
more complex than any that people write, or not readable, its whole directory is hidden, since
nobody knows what the file hides.
"""

from __future__ import annotations

import logging
import os
import stat as modes
from collections.abc import Iterable
from hashlib import blake2b

from resource_server import uris
from resource_server.documents.patterns import Patterns, TooComplexError, bytewise
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path
from resource_server.providers.filesystem.contained_root import ContainedRoot, resource_error

IGNORE_FILES = (".gitignore", ".ignore", ".mcpignore")
"""Names in order of precedence, the weakest first."""

ROOT_IGNORE_FILE = ".git/info/exclude"
"""In the root only; weaker than the others."""

_MAX_BYTES = 256 * 1024
_MAX_EXPRESSIONS = 64 * 1024
"""Maximum characters of compiled expressions; the longest ignore files in use need a quarter."""
_MAX_WARNINGS = 10
_TOO_MUCH = "is too long or complex"
_NOT_READABLE = "may not be read"
_BOM = b"\xef\xbb\xbf"

_log = logging.getLogger(__name__)


class IgnoreRules:
    """The ignore rules of one directory, in force for it and all below."""

    __slots__ = ("_base", "_directory", "_patterns", "_refused", "_sources", "version")

    def __init__(self, directory: str, sources: Iterable[tuple[str, bytes | None]]) -> None:
        """Parse `sources`: names with contents, the weakest first; None is not readable.

        `directory` is the path below the root with a trailing slash, or empty.
        """
        sources = list(sources)
        self._directory = directory
        self._base = len(bytewise(directory))
        self._sources: list[tuple[str, int, str]] = []
        self._refused = next((found for found in map(_refused, sources) if found), None)
        lines: list[str] = []
        for name, data in sources:
            for number, line in enumerate(_lines(data or b""), 1):
                lines.append(line)
                self._sources.append((name, number, line))
        try:
            self._patterns = Patterns(
                ["*"] if self._refused else lines, max_length=_MAX_EXPRESSIONS
            )
        except TooComplexError:
            self._refused = (sources[0][0], _TOO_MUCH)
            self._patterns = Patterns(["*"])
        digest = blake2b(repr(sources).encode(), digest_size=8).digest()
        self.version = int.from_bytes(digest)
        """Equal means the same rules."""
        if self._refused:
            name, reason = self._refused
            where = uris.display(directory + name)
            _log.warning("all beside %r is hidden: the ignore file %s", where, reason)
        for index in self._patterns.unusable[:_MAX_WARNINGS]:
            name, number, line = self._sources[index]
            where = uris.display(directory + name)
            _log.warning("%r line %d is skipped: nothing can match %r", where, number, line[:80])

    def match(self, path: str, name: str, *, is_directory: bool) -> int:
        """Return the index of the rule that decides, or -1; `path` is `bytewise`, from the root."""
        return self._patterns.last_match(path[self._base :], name, is_directory=is_directory)

    def hides(self, rule: int) -> bool:
        """Return whether the rule hides; otherwise it exposes."""
        return not self._patterns.lines[rule].negated

    def describe(self, rule: int) -> str:
        """Return the rule and its location: `.gitignore:3 'build/' in src/`."""
        place = f" in {uris.display(self._directory)}" if self._directory else ""
        if self._refused:
            name, reason = self._refused
            return f"{name}{place}, which {reason}"
        name, number, line = self._sources[rule]
        return f"{name}:{number} '{uris.display(line)}'{place}"


def _lines(data: bytes) -> list[str]:
    text = data.removeprefix(_BOM).decode("utf-8", "surrogateescape")
    # As in C strings, a NUL ends the line.
    return [line.removesuffix("\r").partition("\0")[0] for line in text.split("\n")]


def _refused(source: tuple[str, bytes | None]) -> tuple[str, str] | None:
    name, data = source
    if data is None:
        return name, _NOT_READABLE
    return (name, _TOO_MUCH) if len(data) > _MAX_BYTES else None


def read_ignore_file(root: ContainedRoot, path: Path) -> bytes | None:
    """Return an ignore file, cut off where it is certainly too long; None if unreadable.

    A missing one is empty. As for git, a symbolic link is not an ignore file.

    Raises:
        ResourceBusy, ResourceNotFound: its rules cannot be determined now.
    """
    try:
        status = root.stat(path)
    except ResourceNotFound:
        return b""
    if not modes.S_ISREG(status.st_mode):
        return b""
    try:
        fd, _ = root.open_file(path, status=status)
    except ResourceNotFound:
        return None
    try:
        with os.fdopen(fd, "rb") as file:
            return file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise resource_error(error) from None
