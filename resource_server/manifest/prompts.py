"""The `prompts` section of the manifest: messages that people begin with, filled in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from resource_server import uris
from resource_server.runtime.near_name import did_you_mean

PROMPT_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
ARGUMENT_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
"""What can be a variable of a URI template as well."""

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    """What a prompt asks for."""

    title: str | None = None
    """Name for people."""
    description: str | None = None
    """What it means, for people and models."""
    required: bool = False
    """Whether it has to be given. Of one that is not, and has no default, nothing is filled in."""
    default: str | None = None
    """What it is where it is not given."""
    enum: tuple[str, ...] = ()
    """The only values there are."""
    examples: tuple[str, ...] = ()
    """Values to suggest."""
    complete: str | None = None
    """URI template whose resources are suggested: `file:///project/{+file}`."""

    def __post_init__(self) -> None:
        if self.default is not None and self.required:
            raise ValueError("default: is never used, since the argument is required")
        if self.enum and self.complete is not None:
            raise ValueError("complete: is never used, since 'enum' has the only values")
        if self.enum and self.default is not None and self.default not in self.enum:
            known = ", ".join(self.enum)
            hint = did_you_mean(self.default, self.enum)
            raise ValueError(f"default: expected one of {known}, as 'enum' has them{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message: words, or what a resource holds."""

    role: Literal["user", "assistant"] = "user"
    """Who says it."""
    text: str | None = None
    """What is said; `{name}` is an argument, `{{` and `}}` are braces."""
    resource: str | None = None
    """URI of a resource that is read when the prompt is asked for; a template of arguments."""

    def __post_init__(self) -> None:
        if self.text is None and self.resource is None:
            raise ValueError("a message has 'text' or 'resource', and this one has neither")
        if self.text is not None and self.resource is not None:
            raise ValueError("a message has 'text' or 'resource', not both; write two messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Messages to begin with, which people choose and fill in."""

    title: str | None = None
    """Name for people."""
    description: str | None = None
    """What it asks for."""
    arguments: Mapping[str, PromptArgument] = field(default_factory=dict[str, PromptArgument])
    """What is filled in, by name."""
    messages: Annotated[tuple[PromptMessage, ...], Meta(min_length=1)]
    """The messages, in order."""


def completed(template: str, argument: str, others: Collection[str]) -> list[str]:
    """Return the variables of a template that are no other arguments; one if all is well.

    Raises:
        ValueError: not a template.
    """
    variables = uris.template_variables(template)
    return [name for name in variables if name == argument or name not in others]


def names_in(text: str) -> Iterator[str]:
    """Yield what stands between single braces in a text, each time it does.

    Raises:
        ValueError: a brace is neither part of a pair nor of `{name}`.
    """
    if set("{}") & set(_PLACEHOLDER.sub("", text)):
        raise ValueError("a brace without its counterpart; write '{{' and '}}' for braces")
    return (match[1] for match in _PLACEHOLDER.finditer(text) if match[1] is not None)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in place of their names; braces in a value are just braces."""

    def part(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else values.get(match[1], "")

    return _PLACEHOLDER.sub(part, text)
