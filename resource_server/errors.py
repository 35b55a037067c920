"""Every exception this package raises on purpose, in one tree.

    ResourceServerError
    ├── ManifestError            the manifest cannot be used; carries every diagnostic
    ├── MountUnavailable         a mount cannot serve now (missing folder, refused login)
    └── ResourceError            the answer to one request; its message is shown to clients
        ├── ResourceNotFound     absent, refused or malformed: never told apart
        ├── NotACollection       a listing was asked of a document
        ├── InvalidParameter     a query parameter, cursor or argument that cannot be used
        ├── ResourceTooLarge     over the size limit; says how to read a range
        ├── DeadlineExceeded     took longer than its time limit; may be tried again
        ├── ResourceBusy         locked or overloaded; may be tried again
        ├── ToolFailed           a tool cannot do what it was asked; the model is told why
        └── CannotElicit         nobody can be asked, or nobody answers

The message of a `ResourceError` reaches clients: no absolute path, SQL, secret or body in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class ResourceServerError(Exception):
    """Root of everything this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem of a manifest: where it stands, what was found and what to do.

    `line` and `column` count from 1; 0 means that no position is known. `where` is the dotted
    path of the option (`roots.project.exclude`), empty for a problem of the whole file.
    """

    file: str
    line: int
    column: int
    where: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return (
            f"{place}: {self.where}: {self.message}" if self.where else f"{place}: {self.message}"
        )


class ManifestError(ResourceServerError):
    """The manifest cannot be used; `diagnostics` holds every problem found, in file order."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))


class MountUnavailable(ResourceServerError):
    """A mount cannot serve now. The message is for the operator: it goes to logs and `check`."""


class ResourceError(ResourceServerError):
    """The answer to one request; the message is shown to clients."""


class ResourceNotFound(ResourceError):
    """Nothing readable has this address: absent, refused and malformed look the same."""

    def __init__(self, message: str = "resource not found") -> None:
        super().__init__(message)


class NotACollection(ResourceError):
    """The children of a document were asked for."""

    def __init__(self, message: str = "not a collection") -> None:
        super().__init__(message)


class InvalidParameter(ResourceError):
    """A query parameter, cursor or argument that cannot be used; the message names it."""


class ResourceTooLarge(ResourceError):
    """A document over the size limit was asked for whole.

    `size` and `limit` are bytes; `next` is the query of the first range that can be read.
    """

    def __init__(self, *, size: int, limit: int, next: Mapping[str, str]) -> None:
        self.size = int(size)
        self.limit = int(limit)
        self.next = next
        super().__init__(
            f"resource has {size} bytes, over the limit of {limit}; read a range of it"
        )


class DeadlineExceeded(ResourceError):
    """The provider took longer than its time limit; the same request may succeed later."""

    def __init__(self, message: str = "time limit exceeded") -> None:
        super().__init__(message)


class ResourceBusy(ResourceError):
    """The resource is locked or the provider overloaded; the same request may succeed later."""

    def __init__(self, message: str = "resource is busy") -> None:
        super().__init__(message)


class ToolFailed(ResourceError):
    """A tool cannot do what it was asked; the message tells the model why, and what to do."""


CANNOT_ELICIT = "this client cannot be asked for what is missing"


class CannotElicit(ResourceError):
    """A question cannot be put to the person: the client has no way to, or nobody answers."""

    def __init__(self, message: str = CANNOT_ELICIT) -> None:
        super().__init__(message)
