"""Framing of messages between the server and its workers: the length, then the bytes.

A descriptor may come along with the length.
"""

from __future__ import annotations

import array
import socket
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import StreamReader  # which takes a worker long to import

_LENGTH: Final = struct.Struct("!I")
_CHUNK_BYTES: Final = 1 << 20


def with_length(message: bytes) -> bytes:
    """Return a message with its length."""
    return _LENGTH.pack(len(message)) + message


def receive(channel: socket.socket, max_bytes: int) -> bytes:
    """Return the next message.

    Raises:
        EOFError: the other side is gone, or the message is larger than `max_bytes`.
        TimeoutError: it has taken longer than the timeout of the socket.
    """
    return _taken(channel, _length(_taken(channel, _LENGTH.size), max_bytes))


async def receive_async(stream: StreamReader, max_bytes: int) -> bytes:
    """Return the next message of a stream; raises as `receive`."""
    return await stream.readexactly(_length(await stream.readexactly(_LENGTH.size), max_bytes))


def send_with_fd(channel: socket.socket, message: bytes, fd: int) -> None:
    """Send a message with a descriptor."""
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))
    channel.sendmsg([_LENGTH.pack(len(message))], [rights])
    channel.sendall(message)


def receive_with_fd(channel: socket.socket, max_bytes: int) -> tuple[bytes, int]:
    """Return the next message and its descriptor; raises as `receive`."""
    rights = array.array("i")
    head, ancillary, _, _ = channel.recvmsg(_LENGTH.size, socket.CMSG_LEN(rights.itemsize))
    if len(head) < _LENGTH.size or not ancillary:
        raise EOFError
    rights.frombytes(ancillary[0][2][: rights.itemsize])
    return _taken(channel, _length(head, max_bytes)), rights[0]


def _length(head: bytes, max_bytes: int) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > max_bytes:
        raise EOFError
    return length


def _taken(channel: socket.socket, count: int) -> bytes:
    taken = bytearray()
    while len(taken) < count:
        some = channel.recv(min(count - len(taken), _CHUNK_BYTES))
        if not some:
            raise EOFError
        taken += some
    return bytes(taken)
