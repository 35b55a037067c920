"""Smoke test of an installation, run by its own interpreter: `python smoke.py`.

Needs nothing but the installed package, so that it runs on every interpreter.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEADLINE_S = 60
"""After that, something hangs."""
PROGRAM = [sys.executable, "-m", "resource_server"]
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "smoke", "version": "1"},
}


def run(*arguments: str, text: str = "") -> str:
    """Run a command, and return its standard output."""
    done = subprocess.run(
        [*PROGRAM, *arguments], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def served(source: Path, method: str, params: dict[str, Any]) -> Any:
    """Return the result of one request over stdio."""
    command, pipe = [*PROGRAM, "serve", str(source)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        found: dict[str, Any] = {}
        for number, each in enumerate((("initialize", HELLO), (method, params))):
            request = {"jsonrpc": "2.0", "id": number, "method": each[0], "params": each[1]}
            print(json.dumps(request), file=process.stdin, flush=True)
            # The input stays open: at its end, a slow server gives up what it has not answered.
            while found.get("id") != number:
                found = json.loads(next(iter(process.stdout or ())))
        process.communicate()
    if "result" not in found:
        raise SystemExit(f"{method}: {found}")
    return found["result"]


def expect(found: object, wanted: object) -> None:
    """Fail unless something is as it should be."""
    if found != wanted:
        raise SystemExit(f"expected {wanted!r}, found {found!r}")


def install(folder: Path) -> None:
    """Print the configuration of a host."""
    entry = json.loads(run("install", "json", str(folder)))["mcpServers"]
    expect([each["args"] for each in entry.values()], [["serve", str(folder)]])


def list_folder(folder: Path) -> None:
    """List a folder."""
    expect("hello.txt" in run("list", str(folder)), True)


def serve(folder: Path) -> None:
    """Read a file through a client, over stdio."""
    result = served(folder, "resources/read", {"uri": f"file:///{folder.name}/hello.txt"})
    expect(result["contents"][0]["text"], "hello")


def sqlite(folder: Path) -> None:
    """Read a row of a database."""
    file = folder / "shop.db"
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE tea (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executescript("INSERT INTO tea VALUES (7, 'Assam')")
    connection.close()
    listed = served(file, "resources/list", {})["resources"]
    [table] = [each["uri"] for each in listed if each["name"] == "tea"]
    row = served(file, "resources/read", {"uri": f"{table}/7"})["contents"][0]["text"]
    expect(json.loads(row)["name"], "Assam")


def watch(folder: Path) -> None:
    """Notice a changed file."""
    command = [*PROGRAM, "watch", str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            next(iter(process.stderr or ()))  # it watches from here on
            (folder / "hello.txt").write_text("hello again")
            line = next(iter(process.stdout or ()))
            expect(line.endswith(f"file:///{folder.name}/hello.txt\n"), True)
        finally:
            process.kill()


def http(folder: Path) -> None:
    """Open a session over HTTP, and ask for health and the page."""
    command = [*PROGRAM, "serve", str(folder), "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = re.search(r"(http://\S+)/mcp", next(iter(process.stderr or ())))
            base = found[1] if found else ""
            message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
            }
            answer = fetched(f"{base}/mcp", headers, json.dumps(message).encode())
            expect('"protocolVersion":"2025-11-25"' in answer, True)
            expect(fetched(f"{base}/healthz"), "ok\n")
            expect(f"file:///{folder.name}/" in fetched(f"{base}/", {"Accept": "text/html"}), True)
        finally:
            process.kill()


def fetched(url: str, headers: dict[str, str] | None = None, data: bytes | None = None) -> str:
    """Return the body of a response."""
    request = urllib.request.Request(url, data, headers or {})  # noqa: S310 - our own server
    with urllib.request.urlopen(request) as response:  # noqa: S310
        return response.read().decode()


STEPS: tuple[Callable[[Path], None], ...] = (install, list_folder, serve, sqlite, watch, http)


def main() -> None:
    """Run each step in a new folder."""
    signal.alarm(DEADLINE_S)
    for step in STEPS:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place).resolve() / "project"
            folder.mkdir()
            (folder / "hello.txt").write_text("hello")
            step(folder)
    version = ".".join(map(str, sys.version_info[:3]))
    sys.stdout.write(f"Python {version}: {', '.join(each.__name__ for each in STEPS)}\n")


if __name__ == "__main__":
    main()
