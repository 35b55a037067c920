"""What a folder exposes: one decision for one entry, given what is in force in its directory.

An entry is hidden by the first of these that says so:

1. `directories` with `exposed: false`.
2. The secrets deny-list. Only `secrets: {allow: [...]}` lifts it: by the text of a pattern of the
   list, or by a gitignore pattern for what is harmless.
3. A name that begins with a dot, unless `hidden: true`.
4. `exclude`.
5. Ignore files, unless `gitignore: false`; the nearest directory that says something decides.
6. `include`: files that no pattern matches, and directories that cannot lead to one that does.

Whoever asks goes from the root down and never into what is hidden, so nothing below it is shown.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from resource_server.provider import Annotations
from resource_server.providers.filesystem.encoding import text_encoding
from resource_server.providers.filesystem.exposure.ignore_files import Ignores
from resource_server.providers.filesystem.exposure.patterns import Pattern, Patterns, raw
from resource_server.providers.filesystem.options import DirectoryOptions

SECRETS = (
    # environment files
    ".env*", "*.env",
    # keys and key stores
    "*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdbx",
    "*.kdb", "*.ppk", "*.ovpn", "*.agekey", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    "secring.*",
    # folders of tools that keep keys, tokens or whole histories
    ".git", ".hg", ".svn", ".bzr", ".jj", ".ssh/", ".gnupg/", ".aws/", ".azure/", ".kube/",
    ".gcloud/", "**/.config/gcloud/", "**/.config/gh/", ".password-store/", ".terraform/",
    ".snowsql/",
    # files of tools that keep passwords or tokens
    "**/.docker/config.json", ".dockercfg", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".htpasswd", ".vault-token",
    ".boto", ".s3cfg", ".terraformrc", "terraform.rc", ".databrickscfg", "kubeconfig",
    "*.kubeconfig", "credentials*", "*.credentials", "application_default_credentials.json",
    "client_secret*.json", "*service*account*.json", "secrets.yml", "secrets.yaml", "secrets.json",
    "secrets.toml", ".secret", ".secrets", "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json",
    # what was typed
    ".*_history",
    # what processes were started with, where the whole machine is served
    "/proc/**/environ", "/proc/**/cmdline",
)  # fmt: skip
"""Names that hold secrets, as gitignore patterns in lower case, as the names compared are."""

_SOURCE_SUFFIXES = (
    "c cc cpp cs css dart ex exs go h html java js jsx kt md mdx mjs pl py pyi rb rs rst scala "
    "svelte swift ts tsx vue"
).split()

HARMLESS = (
    "*.example", "*.sample", "*.template", "*.dist", "id_*.pub", "credentials*/",
    *(f"credentials*.{suffix}" for suffix in _SOURCE_SUFFIXES),
)  # fmt: skip
"""What only looks like a secret: templates to fill in, public keys, code about credentials."""

EVERYTHING = ("**",)


_BLOCK = 64
"""Names that are looked through at once for what may be a secret."""


def _suspicious(secrets: Patterns) -> re.Pattern[str]:
    """Return an expression that is found in `/name/name/` if any of the names is one to look at.

    It is found too often rather than not often enough: for every name that begins with a dot, and
    for the longest fixed part of each pattern.
    """
    parts: dict[str, list[str]] = {"/": ["\\."]}
    for pattern in secrets.lines.values():
        chunks = f"/{pattern.glob.rpartition('/')[2]}/".split("*")
        if not chunks[0].startswith("/."):
            part = max(chunks, key=len)
            parts.setdefault(part[0], []).append(re.escape(part[1:]))
    return re.compile(
        "|".join(f"{re.escape(first)}(?:{'|'.join(parts[first])})" for first in parts)
    )


@functools.lru_cache(maxsize=16)  # most roots allow nothing, and to compile it takes a while
def _deny_list(allowed: tuple[str, ...]) -> tuple[Patterns, re.Pattern[str], Patterns]:
    """Return what holds secrets, the expression that finds suspects, and what is harmless."""
    secrets = Patterns([pattern for pattern in SECRETS if pattern not in allowed])
    harmless = (pattern.casefold() for pattern in allowed if pattern not in SECRETS)
    return secrets, _suspicious(secrets), Patterns([*HARMLESS, *harmless])


class Selection:
    """Patterns of `include` or `exclude`, with the directory to which they are relative."""

    __slots__ = ("_base", "_leads", "_patterns")

    def __init__(self, patterns: Iterable[str], prefix: str = "") -> None:
        self._base = len(raw(prefix))
        self._patterns = Patterns(patterns)
        self._leads = Patterns(_leads(self._patterns))

    def match(self, path: str, name: str, *, is_directory: bool) -> Pattern | None:
        """Return the pattern that decides for this very path; None where none says anything."""
        index = self._patterns.last_match(path[self._base :], name, is_directory=is_directory)
        return self._patterns.lines.get(index)

    def may_lead(self, path: str, name: str) -> bool:
        """Say whether something below this directory may be matched."""
        return self._leads.last_match(path[self._base :], name, is_directory=True) >= 0


def _leads(patterns: Patterns) -> Iterable[str]:
    """Yield patterns of the directories on the way to what `patterns` match."""
    for pattern in patterns.lines.values():
        if pattern.negated:
            continue
        segments = pattern.glob.split("/") if pattern.anchored else ["**", ""]
        for depth in range(1, len(segments)):
            way = "/".join(segments[:depth])
            yield f"/{way}/"
            if segments[depth - 1] == "**":
                break


class Scope(msgspec.Struct, frozen=True, eq=False):
    """What is in force inside one directory.

    It is the very same object in a directory below as long as nothing changes on the way, so
    identity tells whether what was decided before still holds.
    """

    include: Selection | None = None
    """None includes everything."""
    exclude: Selection | None = None
    included: bool = False
    """A pattern of `include` matched this directory or one above."""
    ignores: tuple[Ignores, ...] = ()
    """Nearest directory first."""
    gitignore: bool = True
    hidden: bool = False
    listed: bool = True
    readable: bool = True
    annotations: Annotations | None = None
    max_size: int = 0
    encoding: str = ""
    reading: int = 0
    """Of the options that decide what a read returns; the same in every process."""


class Rules:
    """The exposure rules of one folder."""

    def __init__(
        self, directories: Mapping[str, DirectoryOptions], allowed_secrets: Iterable[str] = ()
    ) -> None:
        self.directories = directories
        self._secrets, self._suspicious, self._harmless = _deny_list(tuple(allowed_secrets))

    def enter(self, outer: Scope, key: str) -> Scope:
        """Return what is in force inside the directory `key`, its own ignore files aside."""
        scope = outer
        if outer.include is not None and not outer.included:
            path = raw(key)
            pattern = outer.include.match(path, path.rpartition("/")[2], is_directory=True)
            if pattern is not None and not pattern.negated:
                scope = replace(scope, included=True)
        options = self.directories.get(key)
        return scope if options is None else _overlay(scope, options, f"{key}/")

    def hidden_by(self, scope: Scope, prefix: str, name: str, *, is_directory: bool) -> str | None:
        """Return the rule that hides an entry of the directory `prefix`, or None: it is exposed.

        `scope` is what is in force in that directory, and `prefix` its path from the root with a
        slash at its end, or empty. A symbolic link is no directory.
        """
        options = self.directories.get(prefix + name) if self.directories else None
        # Whatever it is: a link to a directory, or a file that is named by mistake.
        if options is not None and not options.exposed:
            return "exposed: false in directories"
        options = options if is_directory else None
        return (
            self._secret(prefix, name, is_directory=is_directory)
            or _dotted(scope, name, options)
            or _ruled_out(scope, raw(prefix + name), is_directory=is_directory, options=options)
        )

    def exposed(
        self, scope: Scope, prefix: str, names: Sequence[str], directories: Container[str]
    ) -> list[str]:
        """Return those of `names` that `hidden_by` hides not, in their order, at less cost each."""
        plain = scope.exclude is None and not scope.ignores and scope.include is None
        found: list[str] = []
        for start in range(0, len(names), _BLOCK):
            block = names[start : start + _BLOCK]
            if self.directories or self._suspicious.search(f"/{'/'.join(block)}/".casefold()):
                found += [
                    name
                    for name in block
                    if not self.hidden_by(scope, prefix, name, is_directory=name in directories)
                ]
            elif plain:
                found += block
            else:
                found += [
                    name
                    for name in block
                    if not _ruled_out(
                        scope, raw(prefix + name), is_directory=name in directories, options=None
                    )
                ]
        return found

    def _secret(self, prefix: str, name: str, *, is_directory: bool) -> str | None:
        folded = raw(name.casefold())
        path = raw(prefix.casefold()) + folded if prefix else folded
        rule = self._secrets.last_match(path, folded, is_directory=is_directory)
        if rule < 0 or self._harmless.last_match(path, folded, is_directory=is_directory) >= 0:
            return None
        return f"secret: matches '{self._secrets.lines[rule].line}'"


def _dotted(scope: Scope, name: str, options: DirectoryOptions | None) -> str | None:
    if not name.startswith("."):
        return None
    shown = scope.hidden if options is None or options.hidden is None else options.hidden
    return None if shown else "name begins with a dot"


def _ruled_out(
    scope: Scope, path: str, *, is_directory: bool, options: DirectoryOptions | None
) -> str | None:
    if scope.exclude is None and not scope.ignores and scope.include is None:
        return None
    name = path.rpartition("/")[2]
    if scope.exclude is not None:
        pattern = scope.exclude.match(path, name, is_directory=is_directory)
        if pattern is not None and not pattern.negated:
            return f"excluded by '{pattern.line}'"
    if options is None or options.gitignore is not False:
        for ignores in scope.ignores:
            rule = ignores.match(path, name, is_directory=is_directory)
            if rule >= 0:
                if ignores.hides(rule):
                    return f"ignored by {ignores.describe(rule)}"
                break
    return None if _is_included(scope, path, name, is_directory=is_directory) else "not included"


def _is_included(scope: Scope, path: str, name: str, *, is_directory: bool) -> bool:
    if scope.include is None:
        return True
    pattern = scope.include.match(path, name, is_directory=is_directory)
    if pattern is None:
        return scope.included or (is_directory and scope.include.may_lead(path, name))
    return not pattern.negated


def selection(include: Sequence[str], prefix: str = "") -> Selection | None:
    """Return the selection of `include`; None for the default, which is everything."""
    return None if tuple(include) == EVERYTHING else Selection(include, prefix)


def _overlay(scope: Scope, options: DirectoryOptions, prefix: str) -> Scope:
    """Return the scope with what the manifest says of this directory."""
    if options.include is not None:
        scope = replace(scope, include=selection(options.include, prefix), included=False)
    if options.exclude is not None:
        scope = replace(scope, exclude=Selection(options.exclude, prefix))
    if options.gitignore is not None:
        scope = replace(
            scope, gitignore=options.gitignore, ignores=scope.ignores if options.gitignore else ()
        )
    if options.annotations is not None:
        scope = replace(scope, annotations=options.annotations.over(scope.annotations))
    return replace(
        scope,
        hidden=scope.hidden if options.hidden is None else options.hidden,
        listed=scope.listed and options.listed,
        readable=scope.readable if options.readable is None else options.readable,
        max_size=scope.max_size if options.max_size is None else options.max_size,
        encoding=scope.encoding if options.encoding is None else text_encoding(options.encoding),
        reading=fingerprint(
            options.readable, options.max_size, options.encoding, over=scope.reading
        ),
    )


def fingerprint(*options: object, over: int = 0) -> int:
    """Return what differs where options do; all of them None leave that of the outer ones."""
    if all(option is None for option in options):
        return over
    return zlib.crc32(repr(options).encode(), over)
