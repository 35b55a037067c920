"""The floor: a bare loop over stdin with `json`, `open` and `scandir` that serves one flat folder.

    python tests/benchmarks/floor.py FOLDER

It has no rules, limits, cursors, revisions or containment: what it takes is what the work takes.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

Json = dict[str, Any]

TYPES = {"md": "text/markdown", "py": "text/x-python", "txt": "text/plain"}


def read(root: str, uri: str) -> Json:
    """Return a file as MCP asks at least: with its URI and media type."""
    name = unquote(uri).rpartition("/")[2]
    with open(f"{root}/{name}", encoding="utf-8", newline="") as file:
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": file.read()}]}


def listing(root: str) -> Json:
    """Return every file with all that the server tells of it."""
    base = f"file:///{quote(os.path.basename(root))}/"
    resources: list[Json] = []
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        status = entry.stat(follow_symlinks=False)
        modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="milliseconds")
        resource = {
            "uri": base + quote(entry.name),
            "name": entry.name,
            "mimeType": TYPES.get(entry.name.rpartition(".")[2]),
            "size": status.st_size,
            "annotations": {"lastModified": modified[:-6] + "Z"},
            "resourceType": "document",
            "capabilities": {"list": False, "subscribe": False},
            "_meta": {
                "resource-server/resourceType": "document",
                "resource-server/version": f"{status.st_ino:x}{status.st_mtime_ns:x}",
            },
        }
        resources.append(resource)
    return {"resources": resources}


def answer(root: str, method: str, params: Json) -> Json:
    """Return the result of one request."""
    if method == "resources/read":
        return read(root, params["uri"])
    if method == "resources/list":
        return listing(root)
    return {
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"resources": {}},
        "serverInfo": {"name": "floor", "version": "1"},
    }


def main() -> None:
    """Answer line by line until the input ends."""
    root = sys.argv[1]
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            result = answer(root, message["method"], message["params"])
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
