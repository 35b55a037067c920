"""A provider whose tools ask the client and its person; in a manifest, `use: person.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
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


NAMES = (
    *("greet", "paint", "meet", "insist", "muse"),
    *("think", "insist_on_model", "where", "survey", "crowd", "clash", "collect"),
)


@dataclass
class Person:
    """`greet` asks one thing, `paint` two after each other, `meet` in a task group of its own.

    `insist` asks and cannot do without an answer; `muse` asks two at once, and never comes back.
    `think` asks the model, `insist_on_model` cannot do without it; `where` lists the roots;
    `survey` asks person, model and client at once, and then the person again; `crowd` asks 1,000
    things at once, and `clash` two by the same key. `collect` takes failures as answers.
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
        return [Tool(name=name, description=name) for name in NAMES]

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], request: ToolRequest
    ) -> ToolResult:
        if name == "muse":
            await asyncio.gather(self._named(request), request.elicit("colour", "Which?", COLOUR))
            await asyncio.Event().wait()
        if name == "insist":
            return ToolResult([TextBlock(await self._named(request))])
        if name == "insist_on_model":
            return ToolResult([TextBlock(await self._thought(request))])
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
        if name in ("think", "where"):
            return await (self._thought(asked) if name == "think" else self._places(asked))
        if name in ("crowd", "clash", "collect"):
            return await self._together(name, asked)
        if name == "survey":
            words = " ".join(await asyncio.gather(*self._everything(asked)))
        else:
            words = await self._named(asked)
        if name in ("paint", "survey"):
            colour = await asked.elicit("colour", "Which colour?", COLOUR)
            return f"{words} in {colour.content.get('colour', colour.action)}"
        return words

    async def _together(self, name: str, asked: ToolRequest) -> str:
        if name == "collect":
            answers = await asyncio.gather(*self._everything(asked), return_exceptions=True)
            return " ".join(str(each) for each in answers)
        keys = (f"name-{n}" for n in range(1000)) if name == "crowd" else ("same", "same")
        answers = await asyncio.gather(*(asked.elicit(key, key, NAME) for key in keys))
        return str(len(answers))

    def _everything(self, asked: ToolRequest) -> Sequence[Coroutine[Any, Any, str]]:
        return self._named(asked), self._thought(asked), self._places(asked)

    async def _thought(self, asked: ToolRequest) -> str:
        answer = await asked.sample("thought", "What is new?", max_tokens=50, system="Be brief.")
        return f"{answer.model}: {answer.text}"

    async def _places(self, asked: ToolRequest) -> str:
        return " ".join(each.uri for each in await asked.roots())

    async def _named(self, asked: ToolRequest) -> str:
        answer = await asked.elicit("name", "What is your name?", NAME)
        return answer.content["name"] if answer.action == "accept" else answer.action
