"""A provider whose tools ask the person; in a manifest, `use: person.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resource_server.errors import CannotElicit, ResourceNotFound
from resource_server.provider import Content, Path, Resource
from resource_server.provider.tools import TextBlock, Tool, ToolRequest, ToolResult

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOUR = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["colour"],
}


@dataclass
class Person:
    """`greet` asks one thing, `paint` two after each other, `meet` in a task group of its own.

    `insist` asks and cannot do without an answer; `muse` asks two at once, and never comes back.
    """

    templates = ()

    def list(self, parent: Path, *, after: Path | None, limit: int) -> Sequence[Resource]:
        return ()

    def metadata(self, path: Path) -> Resource:
        if path:
            raise ResourceNotFound
        return Resource(path=(), name="person", type="collection")

    def read(self, path: Path, query: Mapping[str, str]) -> Sequence[Content]:
        raise ResourceNotFound

    def tools(self) -> Sequence[Tool]:
        names = ("greet", "paint", "meet", "insist", "muse")
        return [Tool(name=name, description=name) for name in names]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        if name == "muse":
            await asyncio.gather(self._named(request), request.elicit("colour", "Which?", COLOUR))
            await asyncio.Event().wait()
        if name == "insist":
            return ToolResult([TextBlock(await self._named(request))])
        try:
            words = await self._answer(name, request)
        except CannotElicit as error:
            words = f"cannot ask: {error}"
        except Exception as error:  # as a tool may do; a question is none
            words = f"{type(error).__name__}: {error}"
        return ToolResult([TextBlock(words)])

    async def _answer(self, name: str, asked: ToolRequest) -> str:
        if name == "meet":
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self._named(asked))
            return await task
        words = await self._named(asked)
        if name == "paint":
            colour = await asked.elicit("colour", "Which colour?", COLOUR)
            return f"{words} in {colour.content.get('colour', colour.action)}"
        return words

    async def _named(self, asked: ToolRequest) -> str:
        answer = await asked.elicit("name", "What is your name?", NAME)
        return answer.content["name"] if answer.action == "accept" else answer.action
