"""Exceptions of this package, in one tree.

    ResourceServerError
    ├── ManifestError            the manifest is invalid; carries every diagnostic
    ├── MountUnavailable         a mount cannot serve now (missing folder, refused login)
    │   └── RuleUnmatched        a rule would leave open what it is to hide
    ├── ProviderFailed           a provider raised what would end the server, such as SystemExit
    └── ResourceError            error response to one request
        ├── ResourceNotFound     absent, hidden or malformed: indistinguishable
        │   └── ResourceUnreadable   visible, and cannot be read; the message has the cause
        ├── NotACollection       listing of a document
        ├── InvalidParameter     unknown or invalid URI parameter, cursor or argument
        ├── ResourceTooLarge     over the size limit; has the first range to read
        ├── DeadlineExceeded     over the time limit; can be retried
        ├── ResourceBusy         locked or overloaded; can be retried
        ├── ConversionError      a document that cannot be converted; it can be read as it is
        ├── ToolFailed           failed tool call, with advice for the model
        └── CannotElicit         no answer: the client has no forms, or time is over

Messages of `ResourceError` reach clients: put no absolute path, SQL, secret or content into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from msgspec import Struct

IN_CHECK = {"is_in_check": True}
"""The `extra` of a log record whose warning `resource-server check` reports, too."""


class ResourceServerError(Exception):
    """Base class of the exceptions of this package."""


class Diagnostic(Struct, frozen=True):
    """One problem of a manifest: its position, the value found and what to do.

    `line` and `column` count from 1; 0 is an unknown position. `where` is the dotted path of the
    option (`roots.project.exclude`), empty for a problem of the whole file.
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
    """The manifest is invalid; `diagnostics` has every problem, in file order."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))


class MountUnavailable(ResourceServerError):
    """A mount cannot serve now. The message is for the operator, in the log and in `check`.

    `told` is the cause as clients may know it, without host, path and login; `is_temporary` is
    False if it stays until the operator acts.
    """

    def __init__(self, message: str, *, told: str = "", is_temporary: bool = True) -> None:
        super().__init__(message)
        self.told = told or "temporarily unavailable"
        self.is_temporary = is_temporary


class RuleUnmatched(MountUnavailable):
    """A rule of the manifest would leave open what it is to hide: `option` names nothing."""

    def __init__(self, message: str, *, option: str) -> None:
        told = "not served until its operator has mended a rule"
        super().__init__(message, told=told, is_temporary=False)
        self.option = option


class ProviderFailed(ResourceServerError):
    """A provider raised a `BaseException`, such as `SystemExit`, which must not end the server.

    `cause` is what it raised.
    """

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause
        super().__init__(type(cause).__name__)


class ResourceError(ResourceServerError):
    """Error response to one request; the client gets the message."""


class ResourceNotFound(ResourceError):
    """The address names nothing readable: absent, hidden and malformed are indistinguishable."""

    def __init__(self, message: str = "resource not found") -> None:
        super().__init__(message)
        self.suggestions: Sequence[str] = ()
        """URIs of visible resources with similar names."""


class ResourceUnreadable(ResourceNotFound):
    """A resource that the caller may see cannot be read, and another attempt does not help.

    Walks and listings pass over it, as over one that is gone; only its reader learns the cause.
    """

    def __init__(self, message: str = "cannot be read") -> None:
        super().__init__(message)


class NotACollection(ResourceError):
    """A document has no children to list."""

    def __init__(self, message: str = "not a collection") -> None:
        super().__init__(message)


class InvalidParameter(ResourceError):
    """A URI parameter, cursor or argument is unknown or invalid; the message names it."""


class NotSearchable(InvalidParameter):
    """The text of a resource cannot be searched; the message says what can."""


class ResourceTooLarge(ResourceError):
    """A document is over the size limit and was not read in ranges.

    `size` and `limit` are bytes; `next` has the URI parameters of the first range.
    """

    def __init__(self, *, size: int, limit: int, next: Mapping[str, str]) -> None:
        self.size = int(size)
        self.limit = int(limit)
        self.next = next
        super().__init__(
            f"resource has {size} bytes, over the limit of {limit}; read a range of it"
        )


class ConversionError(ResourceError):
    """A document cannot be converted into another format; the message has the reason."""


class ConversionTooSlow(ConversionError):
    """A document cannot be converted within the time for it."""


class DeadlineExceeded(ResourceError):
    """The request took longer than its time limit; it may succeed later."""

    def __init__(self, message: str = "time limit exceeded") -> None:
        super().__init__(message)

    @classmethod
    def of_option(cls, option: str, seconds: float, help: str = "") -> Self:
        """Return the error of a limit in the manifest; `help` is what else would help."""
        raised = f"{help + ', or ' if help else ''}whoever runs the server can raise {option}"
        return cls(f"time limit of {seconds:g} s exceeded; {raised}")


class ResourceBusy(ResourceError):
    """The resource is locked or the provider is overloaded; the request may succeed later.

    `is_temporary` is False for a mount that is down until its operator acts.
    """

    def __init__(self, message: str = "resource is busy", *, is_temporary: bool = True) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


class ToolFailed(ResourceError):
    """A tool call failed; the message tells the model the reason and what to do."""


CANNOT_ELICIT = "this client cannot be asked for what is missing"


class CannotElicit(ResourceError):
    """The client gives no answer: it cannot, refuses, or is too slow; or the answer is invalid."""

    def __init__(self, message: str = CANNOT_ELICIT) -> None:
        super().__init__(message)


class Interrupted(KeyboardInterrupt):
    """A second signal: the operator wants the process to end immediately.

    Not the `KeyboardInterrupt` that a plugin may raise.
    """
