"""The floor: an ASGI application that answers everything with as many bytes as are asked for.

uvicorn --factory tests.benchmarks.empty_app:make
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

SIZE = "EMPTY_APP_BYTES"
"""The variable that says how long its answers are."""


def make() -> Callable[..., Awaitable[None]]:
    """Return the application."""
    body = b"x" * int(os.environ.get(SIZE, "2"))
    head: Message = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ],
    }

    async def application(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "http":
            await receive()
            await send(head)
            await send({"type": "http.response.body", "body": body})

    return application
