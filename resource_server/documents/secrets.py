"""The secrets deny-list: names of files and directories that hold keys, passwords or tokens."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from resource_server.documents.patterns import Patterns, bytewise

SECRETS = (
    # environment files
    ".env*", "*.env",
    # keys and key stores
    "*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdbx",
    "*.kdb", "*.ppk", "*.ovpn", "*.agekey", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
    "secring.*",
    # directories in which tools keep keys, tokens or whole histories
    ".git", ".hg", ".svn", ".bzr", ".jj", ".ssh/", ".gnupg/", ".aws/", ".azure/", ".kube/",
    ".gcloud/", "**/.config/gcloud/", "**/.config/gh/", ".password-store/", ".terraform/",
    ".snowsql/",
    # files in which tools keep passwords or tokens
    "**/.docker/config.json", ".dockercfg", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".htpasswd", ".vault-token",
    ".boto", ".s3cfg", ".terraformrc", "terraform.rc", ".databrickscfg", "kubeconfig",
    "*.kubeconfig", "credentials*", "*.credentials", "application_default_credentials.json",
    "client_secret*.json", "*service*account*.json", "secrets.yml", "secrets.yaml", "secrets.json",
    "secrets.toml", ".secret", ".secrets", "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json",
    # command histories
    ".*_history",
    # text of documents, kept in `cache`
    "*.mcp-conversion", "*.mcp-search", "*.mcp-search-*",
    # environments and arguments of processes, if the whole machine is served
    "/proc/**/environ", "/proc/**/cmdline",
)  # fmt: skip
"""Gitignore patterns of secrets, in lower case: names are compared case-folded."""

_SOURCE_SUFFIXES = (
    "c cc cpp cs css dart ex exs go h html java js jsx kt md mdx mjs pl py pyi rb rs rst scala "
    "svelte swift ts tsx vue"
).split()

HARMLESS = (
    "*.example", "*.sample", "*.template", "*.dist", "id_*.pub", "credentials*/",
    *(f"credentials*.{suffix}" for suffix in _SOURCE_SUFFIXES),
)  # fmt: skip
"""Patterns of false alarms: templates to fill in, public keys, code about credentials."""


class SecretDenyList:
    """Matches names that may hold secrets, less what the manifest allows.

    `allowed` holds patterns of the list, which lift them, and gitignore patterns of harmless files.
    """

    __slots__ = ("_allowed", "_harmless", "_secrets", "_suspicious")

    def __init__(self, allowed: Iterable[str]) -> None:
        allowed = tuple(allowed)
        self._secrets = Patterns([pattern for pattern in SECRETS if pattern not in allowed])
        self._suspicious = _prefilter(self._secrets)
        harmless = (pattern.casefold() for pattern in allowed if pattern not in SECRETS)
        self._harmless = Patterns([*HARMLESS, *harmless])
        self._allowed = Patterns([pattern.casefold() for pattern in allowed])

    def may_match(self, names: Iterable[str]) -> bool:
        """Return whether any of the names may be secret; False is certain, True is a guess."""
        folded = f"/{'/'.join(names)}/".casefold()
        for part in self._suspicious:  # noqa: SIM110  once a directory: `any` takes longer
            if part.search(folded):
                return True
        return False

    def match(self, prefix: str, name: str, *, is_directory: bool) -> str | None:
        """Return the pattern that denies `name` in the directory `prefix`, or None.

        `prefix` is the directory's path with a trailing slash, or empty for the root.
        """
        path, folded = _folded(prefix, name)
        rule = self._secrets.last_match(path, folded, is_directory=is_directory)
        if rule < 0 or self._harmless.last_match(path, folded, is_directory=is_directory) >= 0:
            return None
        return self._secrets.lines[rule].line

    def is_allowed(self, prefix: str, name: str) -> bool:
        """Return whether the manifest allows this very file, by its own patterns."""
        path, folded = _folded(prefix, name)
        return self._allowed.last_match(path, folded, is_directory=False) >= 0


def _folded(prefix: str, name: str) -> tuple[str, str]:
    folded = bytewise(name.casefold())
    return (bytewise(prefix.casefold()) + folded if prefix else folded), folded


@functools.lru_cache(maxsize=16)
def deny_list(allowed: tuple[str, ...]) -> SecretDenyList:
    """Return the deny-list without the allowed patterns; cached, since compiling is slow."""
    return SecretDenyList(allowed)


def _prefilter(secrets: Patterns) -> Sequence[re.Pattern[str]]:
    """Return expressions; one matches `/name/name/` if any name may match a pattern.

    They err towards matching: they find every dotted name and the longest fixed part of each
    pattern. One for each first character, and in it a group for each second one: so most places are
    passed at the first look.
    """
    parts: dict[str, dict[str, list[str]]] = {"/": {".": [""]}}
    for pattern in secrets.lines.values():
        chunks = f"/{pattern.glob.rpartition('/')[2]}/".split("*")
        if not chunks[0].startswith("/."):
            first, second, *rest = max(chunks, key=len)
            parts.setdefault(first, {}).setdefault(second, []).append(re.escape("".join(rest)))
    found: list[re.Pattern[str]] = []
    for first, groups in parts.items():
        branches = [f"{re.escape(each)}(?:{'|'.join(rests)})" for each, rests in groups.items()]
        found.append(re.compile(f"{re.escape(first)}(?:{'|'.join(branches)})"))
    return found
