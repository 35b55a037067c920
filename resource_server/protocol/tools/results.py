"""Results of tool calls: content blocks with their structured form, or an error to read."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

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
    ResourceUnreadable,
    ToolFailed,
)
from resource_server.protocol import content_blocks, error_mapping
from resource_server.protocol.call import Call, Result

_MAX_ERROR_CHARACTERS = 8 * 1024

_encode = msgspec.json.Encoder().encode


def tool_result(call: Call, content: Sequence[bytes], structured: bytes | None = None) -> Result:
    """Return a result with content blocks and the same content as a JSON object."""
    members = b'"content":[' + b",".join(content) + b"]"
    if structured is not None and has_structured(call):
        members += b',"structuredContent":' + structured
    limit = call.server.limits.tool_result_bytes
    if len(members) > limit:
        return error_result(
            f"The result has {len(members)} bytes, over the limit of {limit}. "
            "Ask for less: a range of a document, or fewer of them."
        )
    return Result(members)


def has_structured(call: Call) -> bool:
    """Return whether results have structured content: by the revision, and by the manifest."""
    return call.revision.structured_results and call.server.toolbox.settings.structured


def error_result(text: str) -> Result:
    """Return the result of a failed tool call."""
    if len(text) > _MAX_ERROR_CHARACTERS:
        text = f"{text[:_MAX_ERROR_CHARACTERS]} … ({len(text)} characters in all)"
    return Result(
        b'"content":[' + content_blocks.text_block(text) + b'],"isError":true', is_failure=True
    )


def failure_result(call: Call, error: BaseException, uri: str | None) -> Result:
    """Return the result of a tool that raised `error`; an unexpected error is not disclosed."""
    if call.record is not None:
        call.record.failed(error)
    if isinstance(error, ToolFailed | CannotElicit):
        return error_result(str(error))
    fault = error_mapping.from_error(error, uri, call.revision)
    if fault is None:
        log_failure(error, "internal error in a tool")
        call.log("error", "internal error in tools/call")
        return error_result("Internal error")
    if isinstance(error, MountUnavailable):
        log_failure(error, "unavailable in a tool")
    text = fault.message if uri is None else f"{fault.message}: {uris.display(uri)}"
    end = "" if text.endswith("?") else "."
    return error_result(f"{text}{end} {_advice(error, uri)}".rstrip())


def _advice(error: BaseException, uri: str | None) -> str:
    match error:
        case ResourceTooLarge(next=query) if uri is not None:
            part = uris.with_query(uri.partition("?")[0], query)
            return f"Read a part: {_encode({'uri': part}).decode()}"
        case (
            ResourceUnreadable()
            | ResourceBusy(is_temporary=False)
            | MountUnavailable(is_temporary=False)
        ):
            return "The server's operator has to mend it."
        case ResourceNotFound(suggestions=near) if near:
            return f"Did you mean {' or '.join(map(uris.readable, near))}?"
        case ResourceNotFound():
            return "It may be gone, misspelled, or listed but not readable."
        case NotACollection():
            return "It is a document: read it."
        case DeadlineExceeded():
            return "Ask for less, or try again later."
        case ResourceBusy() | MountUnavailable():
            return "Try again later."
        case _:
            return ""
