"""Keys and paths: which objects of a bucket are documents, and which rules hide them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from resource_server.buckets.bucket import MAX_KEY_BYTES
from resource_server.buckets.location import is_name
from resource_server.documents.path_selection import PathSelection, selection
from resource_server.documents.patterns import bytewise
from resource_server.documents.secrets import deny_list
from resource_server.errors import ResourceNotFound
from resource_server.provider import Path


class KeySpace:
    """The paths below a prefix, and what is exposed of them."""

    def __init__(
        self,
        prefix: str,
        *,
        include: Sequence[str],
        exclude: Sequence[str],
        hidden: bool,
        allowed_secrets: Iterable[str],
    ) -> None:
        self.prefix = prefix
        self._include = selection(include)
        self._exclude = PathSelection(exclude) if exclude else None
        self._hidden = hidden
        self._allowed = tuple(allowed_secrets)

    def key(self, path: Path) -> str:
        """Return the key of a document.

        Raises:
            ResourceNotFound: no key can have this path.
        """
        key = self.prefix + "/".join(path)
        if not all(map(is_name, path)) or len(key.encode()) > MAX_KEY_BYTES:
            raise ResourceNotFound
        return key

    def below(self, path: Path) -> str:
        """Return what the keys below a collection begin with; as `key`."""
        return f"{self.key(path)}/" if path else self.prefix

    def path(self, key: str) -> Path | None:
        """Return the path of a key below the prefix; None if it has none."""
        if not key.startswith(self.prefix):  # what the service lists is not always what was asked
            return None
        segments = tuple(key[len(self.prefix) :].split("/"))
        return segments if all(map(is_name, segments)) else None

    def exposes(self, path: Path, *, is_collection: bool) -> bool:
        """Return whether no rule hides a path."""
        return self.hidden_by(path, is_collection=is_collection) is None

    def hidden_by(self, path: Path, *, is_collection: bool) -> str | None:
        """Return the rule that hides a path, or a collection above it; None if none does."""
        is_included = False
        for depth in range(1, len(path) + 1):
            is_directory = is_collection or depth < len(path)
            rule, is_included = self.rule(path[:depth], is_directory, is_included)
            if rule is not None:
                return rule
        return None

    def rule(self, path: Path, is_directory: bool, is_included: bool) -> tuple[str | None, bool]:
        """Return the rule that hides a child of an exposed collection, and whether it is included.

        `is_included` is true if a pattern matched the collection or one above it.
        """
        name, prefix = path[-1], "".join(f"{each}/" for each in path[:-1])
        secret = deny_list(self._allowed).match(prefix, name, is_directory=is_directory)
        if secret is not None:
            return f"secret: matches '{secret}'", is_included
        if name.startswith(".") and not self._hidden:
            return "name begins with a dot", is_included
        whole = bytewise(prefix + name)
        own = whole.rpartition("/")[2]
        if self._exclude is not None:
            found = self._exclude.match(whole, own, is_directory=is_directory)
            if found is not None and not found.negated:
                return f"excluded by '{found.line}'", is_included
        if self._include is None:
            return None, True
        found = self._include.match(whole, own, is_directory=is_directory)
        if found is not None:
            return ("not included" if found.negated else None), not found.negated
        if is_included or (is_directory and self._include.may_lead(whole, own)):
            return None, is_included
        return "not included", is_included
