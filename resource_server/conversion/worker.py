"""The worker process: converts one document after another, and can do nothing else.

`pool` starts it as `python -I -m resource_server.conversion.worker FD [FOLDER...]`; each job comes
over the socket `FD`, with the descriptor of its document. Once the first converter is imported, the
process is confined for good; only installed modules can be imported from then on.
"""

from __future__ import annotations

import functools
import importlib
import os
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO, cast

import msgspec

from resource_server.conversion import causes, sandbox
from resource_server.conversion.messages import (
    MAX_PART_BYTES,
    MAX_PARTS,
    Answer,
    Begun,
    ConversionJob,
    Converted,
    Done,
    Failed,
    Refused,
    Unusable,
    send_answer,
    take_job,
)
from resource_server.conversion.text_window import TextWindow
from resource_server.errors import ConversionError, InvalidParameter
from resource_server.provider.conversion import Converter, Part
from resource_server.runtime.causes import UNKNOWN, find
from resource_server.runtime.document_range import Range

_MAX_MEMORY_BYTES = 4 * 1024 * 1024 * 1024


def main() -> None:
    """Serve jobs until the server closes the socket."""
    sandbox.end_with_parent()
    channel = socket.socket(fileno=int(sys.argv[1]))
    sys.path += sys.argv[2:]
    with suppress(EOFError, BrokenPipeError):
        job, fd = take_job(channel)
        try:
            _imported(job.reference)
        except Exception as error:
            send_answer(channel, Unusable(f"cannot be imported ({_brief(error)})"))
            return
        prepare = _constant(job.reference, "prepare")
        if callable(prepare):
            sandbox.refuse_files()  # its threads would not be confined later
            prepare()
        sandbox.limit_process(_memory_bytes(job.reference), is_prepared=callable(prepare))
        opens_document = _constant(job.reference, "OPENS_DOCUMENT") is True
        files = (fd, *sandbox.opened_limits()) if opens_document else ()
        protections = sandbox.confine(files, has_locks=not opens_document)
        send_answer(channel, Begun(tuple(protections), is_for_one=opens_document))
        while True:
            with os.fdopen(fd, "rb") as file:
                sandbox.allow_cpu_time()
                send_answer(channel, _outcome(channel, file, job))
            job, fd = take_job(channel)


def _memory_bytes(reference: str) -> int:
    """Return the memory that the module of a converter asks for, within bounds."""
    asked = _constant(reference, "MEMORY_BYTES")
    return min(asked, _MAX_MEMORY_BYTES) if isinstance(asked, int) else sandbox.MEMORY_BYTES


def _constant(reference: str, name: str) -> object:
    return getattr(sys.modules[reference.partition(":")[0]], name, None)


@functools.cache
def _imported(reference: str) -> Converter:
    module, _, name = reference.partition(":")
    found: object = importlib.import_module(module)
    for each in name.split("."):
        found = getattr(found, each)
    return cast("Converter", found)


def _brief(error: Exception) -> str:
    """Return the kind of an error, and the module that is missing."""
    missing = f": {error.name}" if isinstance(error, ModuleNotFoundError) and error.name else ""
    return f"{type(error).__name__}{missing}"


def _outcome(channel: socket.socket, file: BinaryIO, job: ConversionJob) -> Answer:
    """Send the parts of a document; return the answer that ends them."""
    if job.request is None:
        return Done()
    try:
        convert = _imported(job.reference)
        parts = convert(file, job.request)
        if job.start is not None:
            return _send_window(channel, parts, job.start, job.max_bytes)
        return _send_parts(channel, parts, job.max_bytes, is_one=job.is_one)
    except BrokenPipeError:
        raise
    except ConversionError as error:
        return Failed(str(error))
    except InvalidParameter as error:
        return Refused(str(error))
    except Exception as error:
        # The words of a parser may quote the document.
        cause, code = find(causes.DOCUMENT, causes.codes(error))
        return Failed(cause.told, code if cause is UNKNOWN else "")


def _send_parts(
    channel: socket.socket, parts: Iterable[Part], room: int, *, is_one: bool
) -> Answer:
    for count, part in enumerate(parts):
        if count == MAX_PARTS:
            return Done(is_cut=True)
        if isinstance(part.data, str):  # a lone surrogate could not be sent
            text = part.data.encode("utf-8", "replace").decode()
            part = msgspec.structs.replace(part, data=text)
        data = part.data if isinstance(part.data, bytes) else part.data.encode()
        most = min(room, MAX_PART_BYTES)
        if len(data) <= most:
            send_answer(channel, Converted.of(part))
            room -= len(data)
            if is_one:
                break
            continue
        if isinstance(part.data, bytes):
            if count > 0:
                return Done(is_cut=True)
            raise ConversionError("the result is too large")
        text = data[:most].decode("utf-8", "ignore")
        send_answer(channel, Converted.of(msgspec.structs.replace(part, data=text)))
        return Done(is_cut=True)
    return Done()


def _send_window(channel: socket.socket, parts: Iterable[Part], start: Range, room: int) -> Answer:
    window = TextWindow(start, min(room, MAX_PART_BYTES))
    place = window.take(parts)
    send_answer(channel, Converted.of(Part(window.text, mime_type=window.mime_type)))
    return Done(window.is_cut, place)


if __name__ == "__main__":
    main()
