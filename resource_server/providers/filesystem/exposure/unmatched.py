"""Rules of a folder that match nothing: directories that are not there, patterns without a match.

For the operator: such a rule hides nothing, and may be misspelt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from resource_server.documents.path_selection import EVERYTHING, PathSelection, selection
from resource_server.documents.patterns import Pattern, bytewise
from resource_server.errors import ResourceError, ResourceNotFound, RuleUnmatched
from resource_server.provider import Path
from resource_server.providers.filesystem.exposure.explain import (
    entry_names,
    exposed_directories,
    hidden_by,
    shown_path,
)
from resource_server.providers.filesystem.file_tree import FileTree
from resource_server.providers.filesystem.options import DirectoryOptions
from resource_server.runtime.near_name import as_typed, near_name, sentences

_STOPPED = (
    "Nothing of the folder is served until this is right, or has `optional: true` for a "
    "directory that may come later"
)


class Unmatched(NamedTuple):
    """An option that matches nothing, with the problem."""

    option: str
    problem: str
    stops: bool = False
    """Whether it may mean a directory with a name that is near, which it then does not hide."""


def problems(
    tree: FileTree,
    include: Sequence[str],
    exclude: Sequence[str],
    written: Iterable[str],
    *,
    limit: int,
) -> list[tuple[str, str]]:
    """Return the options that match nothing, each with the problem; see `patterns` for the limit.

    `written` are the keys of `directories` as the manifest has them.
    """
    written = tuple(written)
    found = (
        *directories(tree, written),
        *patterns(tree, include, exclude, written, limit=limit),
    )
    return [(each.option, each.problem) for each in found]


def refuse_misnamed(tree: FileTree, written: Iterable[str]) -> None:
    """Refuse to serve a folder if a key of `directories` may mean a directory with another name.

    Raises:
        RuleUnmatched: one may.
    """
    for each in directories(tree, written):
        if each.stops:
            raise RuleUnmatched(each.problem, option=each.option)


# -- directories


def directories(tree: FileTree, written: Iterable[str]) -> Iterator[Unmatched]:
    """Yield the keys of `directories` that name no directory.

    Costs one lookup for each key that is right. `written` are the keys as the manifest has them.
    Keys inside directories that cannot be listed are skipped.
    """
    for option, (key, options) in zip(written, tree.exposure.directories.items(), strict=True):
        found = _misnamed(tree, tuple(key.split("/")), options)
        if found is not None:
            problem, stops = found
            text = sentences(problem, _STOPPED if stops else "")
            yield Unmatched(f"directories.{option}", text, stops)


def _misnamed(tree: FileTree, path: Path, options: DirectoryOptions) -> tuple[str, bool] | None:
    if not tree.ignores_case and tree.is_directory(path):
        return None
    real: Path = ()
    for depth, name in enumerate(path):
        # Listed, not looked up: the file system may ignore case, the rules do not.
        try:
            names = entry_names(tree, real)
        except ResourceError:
            return None
        is_last = depth == len(path) - 1
        written = name if name in names else {as_typed(each): each for each in names}.get(name)
        if written is None:
            return None if options.optional else _missing(tree, real, path[depth:], names, options)
        real = (*real, written)
        if not names[written]:
            # `exposed: false` hides files and links, too.
            is_hidden = is_last and not options.exposed
            return (
                None if is_hidden else (f"'{shown_path(path[: depth + 1])}' is no directory", False)
            )
    return None


def _missing(
    tree: FileTree,
    above: Path,
    rest: Path,
    names: Mapping[str, bool],
    options: DirectoryOptions,
) -> tuple[str, bool]:
    """Return the problem of a name that a directory lacks, and whether another may be meant."""
    hides_files = len(rest) == 1 and not options.exposed
    known = [each for each, is_directory in names.items() if is_directory or hides_files]
    near = near_name(rest[0], known)
    if near is None:
        return "no such directory", False
    exposed = [each for each in known if not _is_hidden(tree, above, each)]
    stops = options.protects and near_name(rest[0], exposed) is not None
    return f"no such directory; did you mean '{shown_path((*above, near, *rest[1:]))}'?", stops


def _is_hidden(tree: FileTree, above: Path, name: str) -> bool:
    try:
        parent = tree.find(above).directory
        return parent is None or hidden_by(tree, parent, name, (*above, name)) is not None
    except ResourceError:
        return True


# -- patterns


class _Sought:
    """One pattern for which a match is sought."""

    def __init__(self, option: str, line: str, prefix: str) -> None:
        self.option = option
        self.line = line
        self._prefix = prefix
        lines = selection((line,), prefix) if option.endswith("include") else None
        self._lines = lines or PathSelection((line,), prefix)
        self.pattern = Pattern.parse(line)
        self.is_literal = self.pattern is not None and self.pattern.is_literal
        """Whether it is a name or path without wildcards."""

    def is_absent(self, tree: FileTree) -> bool:
        """Return whether it is the path of a file or directory that is not there."""
        if self.pattern is None or not (self.is_literal and self.pattern.anchored):
            return False
        try:
            tree.directories.status(self._prefix + self.pattern.glob)
        except ResourceNotFound:
            return self.line.isascii()  # others have several spellings
        return False

    def matches(self, prefix: str, names: Mapping[str, bool]) -> bool:
        """Return whether it matches one of the names in a directory."""
        if not as_typed(prefix).startswith(self._prefix):
            return False
        for name, is_directory in names.items():
            path = bytewise(prefix + name)
            own = path.rpartition("/")[2]
            if self._lines.match(path, own, is_directory=is_directory) is not None:
                return True
        return False


def patterns(
    tree: FileTree,
    include: Sequence[str],
    exclude: Sequence[str],
    written: Iterable[str],
    *,
    limit: int,
) -> Iterator[Unmatched]:
    """Yield patterns, of the root and of its directories, that match nothing.

    Compares up to `limit` names in the exposed directories, then as many in the hidden ones, where
    patterns such as `*.o` may have their only matches. With more exposed names, only paths without
    wildcards are looked up; with more hidden names, only names without wildcards are known to match
    nothing that is exposed. `written` are the keys of `directories` as the manifest has them.
    """
    rules: list[tuple[str, str, Sequence[str], Sequence[str]]] = [("", "", include, exclude)]
    for key, (path, each) in zip(written, tree.exposure.directories.items(), strict=True):
        rules.append((f"directories.{key}.", f"{path}/", each.include or (), each.exclude or ()))
    sought: list[_Sought] = [
        _Sought(f"{owner}{option}", line, prefix)
        for owner, prefix, included, excluded in rules
        for option, lines in (("include", included), ("exclude", excluded))
        for line in lines
        if (line,) != EVERYTHING
    ]
    hidden: list[Path] = []
    left = limit
    for each in exposed_directories(tree) if sought else ():
        sought = [one for one in sought if not one.matches(each.directory.prefix, each.names)]
        inside = {name for name, is_directory in each.names.items() if is_directory}
        hidden += [(*each.directory.path, name) for name in inside - set(each.listing.directories)]
        left -= len(each.names)
        if not sought:
            return
        if left < 0:
            sought = [one for one in sought if one.is_absent(tree)]
            break
    left = limit if left >= 0 else -1
    while hidden and sought and left >= 0:
        path = hidden.pop()
        try:
            names = entry_names(tree, path)
        except ResourceError:
            continue
        prefix = "".join(f"{name}/" for name in path)
        sought = [one for one in sought if not one.matches(prefix, names)]
        hidden += [(*path, name) for name, is_directory in names.items() if is_directory]
        left -= len(names)
    for each in sought:
        if left >= 0 or each.is_literal:
            yield Unmatched(each.option, f"'{shown_path((each.line,))}' matches nothing")
