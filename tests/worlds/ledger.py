"""What a server owes for the messages it was sent: each id one response, and no more.

Only well-formed requests are owed exactly one response. Anything else may be answered once, with
its own id or null; bytes that are no message must be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeGuard, cast

from tests.worlds import grammar
from tests.worlds.harness import Violation

Id: TypeAlias = str | int
INTERNAL_ERROR = -32603
_LARGEST = 2**53
_MAX_CONTINUED = 30


class Ledger:
    """The messages of one client and their responses."""

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self._owed = Counter[Id]()
        self._listening = set[Id]()
        """Requests that may be answered at the end of the connection."""
        self._possible = Counter[Id]()
        """Responses that malformed messages with this id may get."""
        self._cancelled = set[Id]()
        self._unreadable = 0
        """Messages whose response has no usable id."""
        self._batches: list[list[Id]] = []
        """The ids of the requests of each batch, which is refused as a whole or answered."""
        self._optional = 0
        """Malformed messages, each answered once at most."""
        self._arrays: list[Counter[Id]] = []
        """The ids in each response to a batch."""
        self._responses = Counter[Id]()
        self._without_id = 0
        self._faults: list[str] = []
        self._interactive: dict[Id, Mapping[str, Any]] = {}
        """Requests whose result may ask for inputs, by their ids."""
        self._continuations: list[bytes] = []
        self._continued = 0

    # -- the client's messages

    def send(self, line: bytes) -> None:
        """Note a message or batch."""
        self.sent += 1
        try:
            # Text that is not UTF-8 is lone surrogates from here on, and so an oddity.
            message: object = json.loads(line.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            self._unreadable += 1
            return
        if isinstance(message, list):
            items = cast("list[object]", message)
            self._optional += 1  # a batch may be refused as a whole
            self._batches.append([])
            for item in items:
                self._send_one(item, self._batches[-1])
        else:
            self._send_one(message)

    def _send_one(self, message: object, batch: list[Id] | None = None) -> None:
        if not isinstance(message, dict):
            self._unreadable += batch is None
            self._optional += batch is not None
            return
        found = cast("dict[str, Any]", message)
        id = found.get("id")
        usable = isinstance(id, str | int) and not isinstance(id, bool)
        if found.get("method") == "notifications/cancelled":
            self._cancel(found.get("params"))
        if usable and is_request(found):
            if batch is None:
                self._owed[cast("Id", id)] += 1
                if grammar.may_ask(found):
                    self._interactive[cast("Id", id)] = found
                if found["method"] == "subscriptions/listen":
                    self._listening.add(cast("Id", id))
                return
            batch.append(cast("Id", id))
        self._optional += 1
        if usable:
            self._possible[cast("Id", id)] += 1

    def _cancel(self, params: object) -> None:
        if isinstance(params, dict):
            id = cast("dict[str, Any]", params).get("requestId")
            if isinstance(id, str | int):
                self._cancelled.add(id)

    # -- the server's messages

    def receive(self, data: bytes) -> list[dict[str, Any]]:
        """Note a message of the server; return the requests it holds."""
        self.received += 1
        try:
            message: object = json.loads(data)
        except ValueError:
            self._faults.append(f"not JSON: {data[:200]!r}")
            return []
        items = [message]
        if isinstance(message, list):
            items = cast("list[dict[str, Any]]", message)
            self._arrays.append(Counter(each["id"] for each in items if each["id"] is not None))
        return [asked for item in items for asked in self._receive_one(item)]

    def _receive_one(self, message: object) -> Iterable[dict[str, Any]]:
        if not isinstance(message, dict):
            self._faults.append(f"not a message: {message!r}")
            return
        found = cast("dict[str, Any]", message)
        if found.get("jsonrpc") != "2.0":
            self._faults.append(f"not JSON-RPC: {found!r}")
        if "method" in found:
            if "id" in found:
                yield found
            return
        if ("result" in found) == ("error" in found) or "id" not in found:
            self._faults.append(f"neither a result nor an error: {found!r}")
        error: Mapping[str, Any] = found.get("error", {})
        if error.get("code") == INTERNAL_ERROR:
            self._faults.append(f"an internal error: {found!r}")
        if found.get("id") is None:
            self._without_id += 1
        else:
            self._responses[found["id"]] += 1
            self._continue(found)

    def _continue(self, response: Mapping[str, Any]) -> None:
        result = response.get("result")
        if result is not None and grammar.is_forged(response["id"]):
            self._faults.append(f"a forged state is accepted: {response!r}")
        request = self._interactive.get(response["id"])
        if request is not None and is_question(result) and self._continued < _MAX_CONTINUED:
            self._continued += 1
            self._continuations.append(grammar.continued(request, result, self._continued))

    def continuations(self) -> list[bytes]:
        """Return the requests that a client repeats with answers, to be sent; each once."""
        lines, self._continuations = self._continuations, []
        return lines

    # -- the end

    @property
    def is_settled(self) -> bool:
        """Whether every response has come that does not wait for the end of the connection."""
        return set(self._unanswered()) <= self._listening and (
            self._unanswered_batches() <= self._without_id
        )

    def _unanswered(self) -> list[Id]:
        # A message that cannot be read may have been a request with any id.
        return [
            id
            for id, owed in self._owed.items()
            if id not in self._cancelled and self._responses[id] < owed
        ]

    def _unanswered_batches(self) -> int:
        """Return how many batches got no array that answers all that they hold.

        Those must have been refused as a whole.
        """
        left = list(self._arrays)
        count = 0
        for batch in sorted(self._batches, key=len, reverse=True):
            needed = Counter(id for id in batch if id not in self._cancelled)
            fitting = [array for array in left if needed <= array]
            if fitting:
                # Of what was cancelled, some may be answered all the same.
                asked = Counter(batch)
                left.remove(
                    max(fitting, key=lambda array: 2 * (array & asked).total() - array.total())
                )
            elif needed:
                count += 1
        return count + len(left)

    def check(self) -> None:
        """Raise `Violation` unless exactly what was owed has come."""
        faults = list(self._faults)
        faults += [f"{id!r} is not answered" for id in self._unanswered()]
        spare = 0
        for id, count in self._responses.items():
            more = count - self._owed[id]
            spare += max(0, more)
            if more > self._possible[id] + self._unreadable:
                faults.append(f"{id!r} is answered {count} times, asked {self._owed[id]} times")
        if self._without_id + spare > self._unreadable + self._optional:
            faults.append(f"{self._without_id} responses without id, {spare} with another")
        if self._without_id + spare < self._unreadable:
            faults.append(f"{self._unreadable} unreadable messages, {self._without_id} refused")
        if self._unanswered_batches() > self._without_id:
            faults.append(f"not all of {self._batches!r} are answered: {self._arrays!r}")
        if faults:
            raise Violation("; ".join(faults))


def is_question(result: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a result asks for inputs."""
    return isinstance(result, dict) and "inputRequests" in result


def is_request(message: Mapping[str, Any]) -> bool:
    """Return whether a message must be answered with its id: a request as JSON-RPC has it."""
    id = message.get("id")
    if isinstance(id, int) and not -_LARGEST <= id < _LARGEST:
        return False
    is_whole = message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)
    return is_whole and "id" in message and not _has_oddities(message)


def _has_oddities(value: object) -> bool:
    """Return whether Python reads JSON that is none: NaN, Infinity, lone surrogates."""
    if isinstance(value, str):
        return any("\ud800" <= each <= "\udfff" for each in value)
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))  # noqa: PLR0124
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return any(_has_oddities(each) for pair in members.items() for each in pair)
    if isinstance(value, list):
        return any(_has_oddities(each) for each in cast("list[object]", value))
    return False
