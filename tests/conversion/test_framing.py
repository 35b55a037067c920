"""Messages with their lengths over a socket pair, and descriptors that come along."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from resource_server.conversion import framing


@pytest.fixture
def pair() -> Generator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for each in (ours, theirs):
            each.settimeout(10)
        yield ours, theirs


def test_messages_arrive_one_by_one(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    ours.sendall(framing.with_length(b"one") + framing.with_length(b""))
    assert [framing.receive(theirs, 3), framing.receive(theirs, 3)] == [b"one", b""]


async def _streamed(channel: socket.socket) -> bytes:
    reader, writer = await asyncio.open_connection(sock=channel)
    try:
        return await framing.receive_async(reader, 9)
    finally:
        writer.close()


@pytest.mark.parametrize("sent", [framing.with_length(bytes(10)), b"\0\0", b""])
def test_a_message_that_is_too_large_or_cut_is_the_end(
    pair: tuple[socket.socket, socket.socket], sent: bytes
) -> None:
    ours, theirs = pair
    ours.sendall(sent)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        framing.receive(theirs, 9)


def test_a_stream_ends_as_a_socket_does(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    ours.sendall(framing.with_length(bytes(9))[:-1])
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        asyncio.run(_streamed(theirs))


def test_a_descriptor_comes_along(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    ours, theirs = pair
    (tmp_path / "x").write_bytes(b"content")
    with (tmp_path / "x").open("rb") as file:
        framing.send_with_fd(ours, b"read it", file.fileno())
    message, fd = framing.receive_with_fd(theirs, 9)
    with os.fdopen(fd, "rb") as file:
        assert (message, file.read()) == (b"read it", b"content")
    ours.sendall(framing.with_length(b"without one"))
    with pytest.raises(EOFError):
        framing.receive_with_fd(theirs, 99)
