"""Questions asked of one server: what reaches the model, and whether it is the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from tests.benchmarks.agent.question import Argument, Call, Question
from tests.benchmarks.client import Client, Json

_VERSION = re.compile(r'(?<=/version":")[0-9a-f]{1,16}(?=")')
"""The version of a file, which differs each time that the file is made, at times in its length."""

Verdict: TypeAlias = Literal["complete", "marked", "silently short", "failed"]


@dataclass(frozen=True)
class Policy:
    """What a host hands to its model of the result of a tool."""

    name: str
    structured: bool
    """Whether `structuredContent` replaces the text where there is any."""

    def given(self, result: Json) -> str:
        """Return all characters of a result that a model gets; images are none."""
        structured = result.get("structuredContent")
        if self.structured and structured is not None:
            return compact(structured)
        return "\n".join(_block(block) for block in result["content"])


TEXT = Policy("text", structured=False)
JSON = Policy("JSON", structured=True)
POLICIES = (TEXT, JSON)


@dataclass(frozen=True)
class Given:
    """What reached the model for one question, by one policy."""

    characters: int
    verdict: Verdict
    missing: Sequence[str] = ()
    """Facts that are not in it."""

    @property
    def answered(self) -> bool:
        """Whether the model has the answer, or knows that it does not have all of it."""
        return self.verdict in ("complete", "marked")


@dataclass(frozen=True)
class Asked:
    """A server that is asked."""

    name: str
    command: Sequence[str]
    root: str
    """What `{root}` in its calls stands for."""
    marks: str | None
    """An expression for what tells a model that there is more; None where nothing does."""
    replaced: tuple[str, str]
    """A path of this machine, and the usual one that is counted in its place."""


def answers(
    asked: Asked, source: Path, questions: Sequence[tuple[Question, Sequence[Call]]]
) -> dict[str, dict[str, Given]]:
    """Return what reached the model, by question and policy; nothing for one without calls."""
    found: dict[str, dict[str, Given]] = {}
    with Client(asked.command) as client:
        for question, calls in questions:
            if calls:
                results = ask(client, calls, asked.root)
                facts = question.expressions(source)
                given = {each.name: weigh(results, facts, each, asked) for each in POLICIES}
                found[question.asks] = given
    return found


def compact(value: object) -> str:
    """Return JSON as a host writes it for its model."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def ask(client: Client, calls: Sequence[Call], root: str) -> list[Json]:
    """Return the results of a question's calls."""
    results: list[Json] = []
    for tool, arguments in calls:
        filled = {name: _filled(value, root) for name, value in arguments.items()}
        answer = client.answer("tools/call", name=tool, arguments=filled)
        refused = {"content": [{"type": "text", "text": compact(answer.get("error"))}]}
        results.append(answer.get("result", {**refused, "isError": True}))
    return results


def weigh(results: Sequence[Json], facts: Sequence[str], policy: Policy, asked: Asked) -> Given:
    """Return what a model got by the results of one question."""
    given = "\n".join(policy.given(result) for result in results).replace(*asked.replaced)
    given = _VERSION.sub("0" * 16, given)
    readable = "\n".join(_readable(result, policy) for result in results)
    missing = [fact for fact in facts if not re.search(fact, readable, re.MULTILINE)]
    if not missing:
        verdict: Verdict = "complete"
    elif results[-1].get("isError"):
        verdict = "failed"
    else:
        marked = asked.marks is not None and re.search(asked.marks, readable)
        verdict = "marked" if marked else "silently short"
    return Given(len(given), verdict, missing)


def definitions(asked: Asked) -> dict[str, int]:
    """Return the characters of each tool's definition, as `tools/list` sends it."""
    with Client(asked.command) as client:
        return {each["name"]: len(compact(each)) for each in client.request("tools/list")["tools"]}


def _filled(value: Argument, root: str) -> Argument:
    if isinstance(value, str):
        return value.replace("{root}", root)
    return value if isinstance(value, int) else [each.replace("{root}", root) for each in value]


def _block(block: Json) -> str:
    """Return a block as a model gets it: text as such, an image as none, others as JSON."""
    if block["type"] in ("image", "audio"):
        return ""
    return block["text"] if block["type"] == "text" else compact(block)


def _readable(result: Json, policy: Policy) -> str:
    """Return the same with all text as it reads, without JSON's escapes."""
    structured = result.get("structuredContent")
    if policy.structured and structured is not None:
        return "\n".join(_scalars(structured))
    blocks = result["content"]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    others = [line for block in blocks if block["type"] != "text" for line in _scalars(block)]
    return "\n".join([*texts, *others, *(line for text in texts for line in _inner(text))])


def _inner(text: str) -> Iterator[str]:
    """Yield what a text says that is JSON itself."""
    try:
        yield from _scalars(json.loads(text))
    except ValueError:
        return


def _scalars(value: Any) -> Iterator[str]:
    """Yield each member of an object as `name: value`, and each item of a list."""
    if isinstance(value, dict):
        for name, each in cast("Json", value).items():
            for line in _scalars(each):
                yield f"{name}: {line}"
    elif isinstance(value, list) and value:
        for each in cast("list[Any]", value):
            yield from _scalars(each)
    else:
        yield value if isinstance(value, str) else json.dumps(value)
