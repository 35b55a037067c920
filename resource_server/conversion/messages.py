"""Messages between the server and a worker, as MessagePack."""

from __future__ import annotations

import socket
from typing import TypeAlias

import msgspec

from resource_server.conversion import framing
from resource_server.conversion.text_window import WindowPlace
from resource_server.provider.conversion import ConversionRequest, Part
from resource_server.runtime.document_range import Range

MAX_PART_BYTES = 8 * 1024 * 1024
"""Maximum bytes of one part."""
MAX_PARTS = 20_000
"""Maximum parts of one result."""
_MAX_MEDIA_TYPE = 255
_MAX_REASON = 300
"""Characters of a converter's own words."""
_MAX_MESSAGE_BYTES = MAX_PART_BYTES + 64 * 1024


class ConversionJob(msgspec.Struct, frozen=True):
    """One document to convert; its descriptor comes along."""

    reference: str
    """The converter, as `module:function`."""
    request: ConversionRequest | None
    """None only starts the worker, to see whether the converter can be used."""
    max_bytes: int = 0
    """Maximum bytes of all parts together."""
    start: Range | None = None
    """Where the text that is wanted begins; None for the parts from the first on."""
    is_one: bool = False
    """Whether the first part is enough, such as a picture."""


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The worker is confined."""

    protections: tuple[str, ...]
    """Names of what the kernel enforces, beside the limits."""
    is_for_one: bool = False
    """Whether it can open the document that came first, and no other."""


class Converted(msgspec.Struct, frozen=True, tag=True):
    """A part of the document, as text or as an image."""

    number: int
    total: int | None
    mime_type: str
    text: str | None
    image: bytes | None
    is_picture: bool = False

    @classmethod
    def of(cls, part: Part) -> Converted:
        """Return the message of a part."""
        data = part.data
        text, image = (data, None) if isinstance(data, str) else (None, data)
        return cls(part.number, part.total, part.mime_type, text, image, part.is_picture)

    @property
    def part(self) -> Part:
        """The part.

        Raises:
            ValueError: its media type is too long.
        """
        if len(self.mime_type) > _MAX_MEDIA_TYPE:
            raise ValueError("media type")
        data = self.text or "" if self.image is None else self.image
        return Part(data, self.number, self.total, self.mime_type, self.is_picture)


class Done(msgspec.Struct, frozen=True, tag=True):
    """The end of a conversion."""

    is_cut: bool = False
    """Whether the last part is not whole, or others are missing."""
    place: WindowPlace = WindowPlace()
    """Where the text lies, if it was wanted from some place on."""


class _WithReason(msgspec.Struct, frozen=True):
    reason: str

    @property
    def words(self) -> str:
        """The reason, which may quote the document, as one short line of printable characters."""
        start = self.reason[: 2 * _MAX_REASON]
        line = " ".join("".join(each if each.isprintable() else " " for each in start).split())
        return line if len(line) <= _MAX_REASON else f"{line[: _MAX_REASON - 1]}…"


class Failed(_WithReason, frozen=True, tag=True):
    """The document cannot be converted."""

    code: str = ""
    """The class of an exception whose cause is not known, for the log."""


class Refused(_WithReason, frozen=True, tag=True):
    """The document has nothing for a URI parameter."""


class Unusable(_WithReason, frozen=True, tag=True):
    """The converter itself cannot be used; the worker ends."""


Answer: TypeAlias = Begun | Converted | Done | Failed | Refused | Unusable

_encode = msgspec.msgpack.Encoder().encode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode
_decode_job = msgspec.msgpack.Decoder(ConversionJob).decode


def send_job(channel: socket.socket, job: ConversionJob, fd: int) -> None:
    """Send a job with the descriptor of its document."""
    framing.send_with_fd(channel, _encode(job), fd)


def take_job(channel: socket.socket) -> tuple[ConversionJob, int]:
    """Return the next job and its descriptor.

    Raises:
        EOFError: the server is gone.
    """
    message, fd = framing.receive_with_fd(channel, _MAX_MESSAGE_BYTES)
    return _decode_job(message), fd


def send_answer(channel: socket.socket, answer: Answer) -> None:
    """Send an answer."""
    channel.sendall(framing.with_length(_encode(answer)))


def take_answer(channel: socket.socket) -> Answer:
    """Return the next answer.

    Raises:
        EOFError: the worker is gone.
        TimeoutError: it has taken longer than the timeout of the socket.
        msgspec.ValidationError, msgspec.DecodeError: it has sent something else.
    """
    return _decode_answer(framing.receive(channel, _MAX_MESSAGE_BYTES))
