"""What became of resources, one line each: for people, or as JSON for programs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from resource_server.cli import messages, output

Event: TypeAlias = Literal["added", "changed", "removed"]

_encode = msgspec.json.Encoder().encode


class Events:
    """Prints events at once, on what is standard output when this is made.

    It is not looked up for each: while a plugin is loaded, it is another stream.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._out = sys.stdout

    def tell(self, event: Event, uri: str) -> None:
        """Print one event, with the time.

        Raises:
            BrokenPipeError: nobody reads the output any more.
        """
        now = datetime.now(UTC)
        if self._as_json:
            time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            self._out.buffer.write(_encode({"event": event, "uri": uri, "time": time}) + b"\n")
        else:
            time = output.faint(now.astimezone().strftime("%H:%M:%S"))
            self._out.write(f"{time}  {event:7}  {messages.shown(uri)}\n")
        self._out.flush()
