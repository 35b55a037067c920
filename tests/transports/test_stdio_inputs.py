"""Answers of a client over stdio that are far too long, late, or to nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from resource_server.transports.stdio import MAX_MESSAGE_BYTES
from tests.protocol.client_features.asking import EVERYTHING, answer_to
from tests.protocol.wire import initialize
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
TOO_LONG = "cannot ask: the client's answer is too long"


class Client:
    """A client of a server process, line by line."""

    def __init__(self, manifest: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "resource_server", "serve", str(manifest)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        # A server that hangs ends the test.
        self._timer = threading.Timer(PATIENCE_S, self.process.kill)
        self._timer.start()
        self.send(initialize("2025-11-25", can=EVERYTHING))
        assert self.receive()["id"] == 0

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def call(self, name: str, id: int = 7) -> dict[str, Any]:
        """Call a tool; return the question that it asks."""
        params = {"name": name}
        self.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        return self.receive()

    def answer(self, question: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": answer_to(question)})

    def words(self) -> str:
        """Return what the called tool says."""
        reply = self.receive()
        assert reply["id"] == 7, reply
        return reply["result"]["content"][0]["text"]

    def end(self) -> None:
        self._timer.cancel()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def connected(tmp_path: Path) -> Generator[Client]:
    person = ROOT / "tests/person.py"
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(f"providers: {{person: {{use: '{person}', uri: 'test://person/'}}}}\n")
    opened = Client(manifest)
    yield opened
    opened.end()


def peak_bytes(client: Client) -> int:
    status = Path(f"/proc/{client.process.pid}/status").read_text("ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize("name", ["greet", "think", "where"])
def test_an_answer_over_the_limit_ends_its_question(connected: Client, name: str) -> None:
    question = connected.call(name)
    content = b'{"result":{"content":"' + b"x" * MAX_MESSAGE_BYTES
    connected.write(content + b'"},"jsonrpc":"2.0","id":"%b"}\n' % question["id"].encode())
    refusal = connected.receive()
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)
    assert connected.words() == TOO_LONG
    connected.answer(connected.call("greet"))
    assert connected.words() == "Ada"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc of Linux")
def test_an_answer_of_100_megabytes_is_not_stored(connected: Client) -> None:
    connected.answer(connected.call("think"))
    assert connected.words() == "m: Paris"
    before = peak_bytes(connected)
    question = connected.call("think")
    connected.write(b'{"jsonrpc":"2.0","id":"%b","result":"' % question["id"].encode())
    for _ in range(100):
        connected.write(b"x" * 1024 * 1024)
    connected.write(b'"}\n')
    assert connected.receive()["id"] is None
    assert connected.words() == TOO_LONG
    assert peak_bytes(connected) < before + 16 * 1024 * 1024


def test_answers_to_nothing_are_ignored(connected: Client) -> None:
    question = connected.call("think")
    result = answer_to(question)
    for id in (f"{question['id']}0", "ask-0", 7, None):
        connected.send({"jsonrpc": "2.0", "id": id, "result": result})
    connected.answer(question)
    connected.answer(question)
    assert connected.words() == "m: Paris"
