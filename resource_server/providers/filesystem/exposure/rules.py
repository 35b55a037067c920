"""Exposure rules: whether an entry of a directory is served, and which rule hides it.

The first rule that applies hides an entry by its name:

1. `directories` with `exposed: false`.
2. The secrets deny-list. Only `secrets: {allow: [...]}` lifts it: with the text of one of its
   patterns, or with a gitignore pattern of harmless files.
3. A name that begins with a dot, unless `hidden: true`; one with two dots, such as the `..data` of
   a mounted volume of Kubernetes, where links are followed: only links lead into it.
4. `exclude`.
5. Ignore files, unless `gitignore: false`; the nearest directory with a matching rule decides.
6. `include`: files that match no pattern, and directories below which nothing can match. What no
   pattern matches itself is exposed only if something below is (`lookahead`).

A withheld file is hidden under every name. Callers descend from the root and never enter a hidden
directory, so nothing below it is served.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from resource_server.documents.encoding import canonical_encoding
from resource_server.documents.options import reading_fingerprint
from resource_server.documents.path_selection import PathSelection, selection
from resource_server.documents.patterns import bytewise
from resource_server.documents.secrets import SecretDenyList, deny_list
from resource_server.provider import Annotations
from resource_server.providers.filesystem.contained_root import Status
from resource_server.providers.filesystem.exposure.ignore_files import IgnoreRules
from resource_server.providers.filesystem.exposure.withheld import WithheldFiles
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.near_name import as_typed

_PRIORITY = 0.5
"""Priority of a directory that has none."""
_BLOCK = 64
"""Names that are checked against the deny-list in one search."""


class DirectoryRules(msgspec.Struct, frozen=True, eq=False):
    """The rules and options in force inside one directory.

    A subdirectory that changes nothing shares the object of its parent, so an identity check tells
    whether earlier decisions still hold.
    """

    include: PathSelection | None = None
    """None includes everything."""
    exclude: PathSelection | None = None
    included: bool = False
    """Whether `include` matched this directory or an ancestor."""
    ignores: tuple[IgnoreRules, ...] = ()
    """Nearest directory first."""
    gitignore: bool = True
    hidden: bool = False
    listed: bool = True
    readable: bool = True
    annotations: Annotations | None = None
    max_size: int = 0
    encoding: str = ""
    reading: int = 0
    """Fingerprint of the options that decide what a read returns; the same in every process."""

    @property
    def is_open(self) -> bool:
        """Whether only what lies below tells if `include` exposes the directory."""
        return self.include is not None and not self.included


class ExposureRules:
    """The exposure rules of one root."""

    def __init__(
        self, directories: Mapping[str, DirectoryOptions], allowed_secrets: Iterable[str] = ()
    ) -> None:
        self.directories = directories
        self.priorities = _priorities(directories)
        """The highest priority at or below each directory that has one, or is above one."""
        self._allowed_secrets = tuple(allowed_secrets)
        self.follows_links = False
        """Whether symbolic links are followed."""
        self.withheld: WithheldFiles | None = None
        """Files that are hidden under every name, unless `allowed_secrets` names them."""

    @cached_property
    def _secrets(self) -> SecretDenyList:
        # Made on first use: compiling it would delay the start.
        return deny_list(self._allowed_secrets)

    def options(self, key: str) -> DirectoryOptions | None:
        """Return the options that `directories` has for exactly this directory, if any."""
        return self.directories.get(as_typed(key))

    def enter(self, outer: DirectoryRules, key: str) -> DirectoryRules:
        """Return the rules inside the directory `key`, without its own ignore files."""
        rules = outer
        if outer.include is not None and not outer.included:
            path = bytewise(key)
            pattern = outer.include.match(path, path.rpartition("/")[2], is_directory=True)
            if pattern is not None and not pattern.negated:
                rules = replace(rules, included=True)
        options = self.options(key) if self.directories else None
        return rules if options is None else _overlay(rules, options, f"{key}/")

    def priority(self, rules: DirectoryRules, key: str) -> float:
        """Return the priority of an entry of a directory, or the highest one below it.

        `rules` are those of the directory that has it.
        """
        own = rules.annotations.priority if rules.annotations is not None else None
        inherited = _PRIORITY if own is None else own
        options = self.options(key)
        if options is not None and options.annotations is not None:
            own = options.annotations.priority
            inherited = inherited if own is None else own
        return max(inherited, self.priorities.get(as_typed(key), 0.0))

    def hidden_by(
        self,
        rules: DirectoryRules,
        prefix: str,
        name: str,
        *,
        is_directory: bool,
        is_target: bool = False,
    ) -> str | None:
        """Return the rule that hides an entry of a directory, or None if it is exposed.

        `rules` are those of that directory; `prefix` is its path below the root with a trailing
        slash, or empty. A symbolic link counts as a file. A target is reached through a link.
        """
        options = self.options(prefix + name) if self.directories else None
        # `exposed: false` also hides an entry that is a link or a file.
        if options is not None and not options.exposed:
            return "exposed: false in directories"
        options = options if is_directory else None
        if self.is_only_target(name):
            dotted = None if is_target else "name begins with two dots: only links lead there"
        else:
            dotted = _dotted(rules, name, options)
        return (
            self._secret(prefix, name, is_directory=is_directory)
            or dotted
            or _ruled_out(
                rules, bytewise(prefix + name), is_directory=is_directory, options=options
            )
        )

    def is_only_target(self, name: str) -> bool:
        """Return whether only symbolic links lead to an entry of this name."""
        return self.follows_links and name.startswith("..")

    def exposed(
        self, rules: DirectoryRules, prefix: str, names: Sequence[str], directories: Container[str]
    ) -> list[str]:
        """Return the names that `hidden_by` does not hide, in order. Faster than one call each."""
        plain = rules.exclude is None and not rules.ignores and rules.include is None
        found: list[str] = []
        for start in range(0, len(names), _BLOCK):
            block = names[start : start + _BLOCK]
            if self.directories or self._secrets.may_match(block):
                found += [
                    name
                    for name in block
                    if not self.hidden_by(rules, prefix, name, is_directory=name in directories)
                ]
            elif plain:
                found += block
            else:
                found += [
                    name
                    for name in block
                    if not _ruled_out(
                        rules,
                        bytewise(prefix + name),
                        is_directory=name in directories,
                        options=None,
                    )
                ]
        return found

    def withholds(self, prefix: str, name: str, status: Status) -> str | None:
        """Return why a file is withheld under this name; None if it is not."""
        if self.withheld is None or (reason := self.withheld.reason(status)) is None:
            return None
        return None if self._secrets.is_allowed(prefix, name) else reason

    def _secret(self, prefix: str, name: str, *, is_directory: bool) -> str | None:
        pattern = self._secrets.match(prefix, name, is_directory=is_directory)
        return None if pattern is None else f"secret: matches '{pattern}'"


def _priorities(directories: Mapping[str, DirectoryOptions]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for key, options in directories.items():
        # A hidden directory must not be noticed by the place of those above it.
        if not options.exposed or options.annotations is None:
            continue
        priority = options.annotations.priority
        names = key.split("/") if priority is not None else ()
        for end in range(1, len(names) + 1):
            above = "/".join(names[:end])
            found[above] = max(found.get(above, 0.0), priority or 0.0)
    return found


def _dotted(rules: DirectoryRules, name: str, options: DirectoryOptions | None) -> str | None:
    if not name.startswith("."):
        return None
    shown = rules.hidden if options is None or options.hidden is None else options.hidden
    return None if shown else "name begins with a dot"


def _ruled_out(
    rules: DirectoryRules, path: str, *, is_directory: bool, options: DirectoryOptions | None
) -> str | None:
    if rules.exclude is None and not rules.ignores and rules.include is None:
        return None
    name = path.rpartition("/")[2]
    if rules.exclude is not None:
        pattern = rules.exclude.match(path, name, is_directory=is_directory)
        if pattern is not None and not pattern.negated:
            return f"excluded by '{pattern.line}'"
    if options is None or options.gitignore is not False:
        for ignores in rules.ignores:
            rule = ignores.match(path, name, is_directory=is_directory)
            if rule >= 0:
                if ignores.hides(rule):
                    return f"ignored by {ignores.describe(rule)}"
                break
    return None if _is_included(rules, path, name, is_directory=is_directory) else "not included"


def _is_included(rules: DirectoryRules, path: str, name: str, *, is_directory: bool) -> bool:
    if rules.include is None:
        return True
    pattern = rules.include.match(path, name, is_directory=is_directory)
    if pattern is None:
        return rules.included or (is_directory and rules.include.may_lead(path, name))
    return not pattern.negated


def _overlay(rules: DirectoryRules, options: DirectoryOptions, prefix: str) -> DirectoryRules:
    """Return the rules with the options of one directory applied."""
    if options.include is not None:
        rules = replace(rules, include=selection(options.include, prefix), included=False)
    if options.exclude is not None:
        rules = replace(rules, exclude=PathSelection(options.exclude, prefix))
    if options.gitignore is not None:
        rules = replace(
            rules, gitignore=options.gitignore, ignores=rules.ignores if options.gitignore else ()
        )
    if options.annotations is not None:
        rules = replace(rules, annotations=options.annotations.over(rules.annotations))
    return replace(
        rules,
        hidden=rules.hidden if options.hidden is None else options.hidden,
        listed=rules.listed and options.listed,
        readable=rules.readable if options.readable is None else options.readable,
        max_size=rules.max_size if options.max_size is None else options.max_size,
        encoding=rules.encoding
        if options.encoding is None
        else canonical_encoding(options.encoding),
        reading=reading_fingerprint(
            options.readable, options.max_size, options.encoding, over=rules.reading
        ),
    )
