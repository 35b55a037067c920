"""Results of tools: content blocks and their structured form, or words for what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from resource_server import uris
from resource_server.catalog.mount import log_failure
from resource_server.errors import (
    CannotElicit,
    DeadlineExceeded,
    MountUnavailable,
    NotACollection,
    ResourceBusy,
    ResourceNotFound,
    ResourceTooLarge,
    ToolFailed,
)
from resource_server.protocol import content_blocks, error_mapping
from resource_server.protocol.call import Call, Result

MAX_RESULT_BYTES = 8 * 1024 * 1024
"""As JSON; hosts take far less."""
_LONGEST_WORDS = 8 * 1024


def result(call: Call, content: Sequence[bytes], structured: bytes | None = None) -> Result:
    """Return a result: its content blocks, and the same as a JSON object."""
    members = b'"content":[' + b",".join(content) + b"]"
    if structured is not None and call.revision.structured_results:
        members += b',"structuredContent":' + structured
    if len(members) > MAX_RESULT_BYTES:
        return failed(
            f"The result has {len(members)} bytes, over the limit of {MAX_RESULT_BYTES}. "
            "Ask for less: a range of a document, or fewer of them."
        )
    return Result(members)


def failed(words: str) -> Result:
    """Return the result of a tool that could not do what it was asked."""
    if len(words) > _LONGEST_WORDS:
        words = f"{words[:_LONGEST_WORDS]} …"
    return Result(b'"content":[' + content_blocks.text(words) + b'],"isError":true')


def failure(call: Call, error: BaseException, uri: str | None) -> Result:
    """Return the result of a tool that has raised `error`; of a defect nothing is told."""
    if isinstance(error, ToolFailed | CannotElicit):
        return failed(str(error))
    fault = error_mapping.from_error(error, uri, call.revision)
    if fault is None:
        log_failure(error, "internal error in a tool")
        call.log("error", "internal error in tools/call")
        return failed("Internal error")
    if isinstance(error, MountUnavailable):
        log_failure(error, "unavailable in a tool")
    words = fault.message if uri is None else f"{fault.message}: {uris.display(uri)}"
    return failed(f"{words}. {_advice(error, uri)}".rstrip())


def _advice(error: BaseException, uri: str | None) -> str:
    match error:
        case ResourceTooLarge(next=query) if uri is not None:
            return f"Read a part: uri={uris.with_query(uri.partition('?')[0], query)}"
        case ResourceNotFound():
            return "It may be gone, spelled otherwise, or listed and not to be read."
        case NotACollection():
            return "It is a document: read it."
        case DeadlineExceeded():
            return "Ask for less, or again later."
        case ResourceBusy() | MountUnavailable():
            return "Try again later."
        case _:
            return ""
