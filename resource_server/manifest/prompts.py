"""The `prompts` section of the manifest: message templates with arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from resource_server import uris
from resource_server.runtime.near_name import did_you_mean

PROMPT_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
ARGUMENT_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
"""Also the syntax of a URI template variable."""

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


class PromptArgument(Struct, frozen=True, kw_only=True):
    """An argument of a prompt."""

    title: str | None = None
    """Name, for people."""
    description: str | None = None
    """Description, for people and models."""
    required: bool = False
    """Whether a value must be given. An optional argument without a default is filled in empty."""
    default: str | None = None
    """Value if none is given."""
    enum: tuple[str, ...] = ()
    """Allowed values."""
    examples: tuple[str, ...] = ()
    """Suggested values."""
    complete: str | None = None
    """URI template; suggests the resources it matches, such as `file:///project/{+file}`."""

    def __post_init__(self) -> None:
        if self.default is not None and self.required:
            raise ValueError("default: never used, since the argument is required")
        if self.enum and self.complete is not None:
            raise ValueError("complete: never used, since 'enum' lists the values")
        if self.enum and self.default is not None and self.default not in self.enum:
            known = ", ".join(self.enum)
            hint = did_you_mean(self.default, self.enum)
            raise ValueError(f"default: expected one of the 'enum' values {known}{hint}")


class PromptMessage(Struct, frozen=True, kw_only=True):
    """One message: text, or the content of a resource."""

    role: Literal["user", "assistant"] = "user"
    """Author of the message."""
    text: str | None = None
    """Text of the message; `{name}` is an argument, `{{` and `}}` are literal braces."""
    resource: str | None = None
    """URI template of a resource to embed; its variables are arguments."""

    def __post_init__(self) -> None:
        if self.text is None and self.resource is None:
            raise ValueError("a message needs 'text' or 'resource'; this one has neither")
        if self.text is not None and self.resource is not None:
            raise ValueError("a message has either 'text' or 'resource'; write two messages")


class Prompt(Struct, frozen=True, kw_only=True):
    """A prompt that people choose, with its arguments and messages."""

    title: str | None = None
    """Name, for people."""
    description: str | None = None
    """Description, for people and models."""
    arguments: Mapping[str, PromptArgument] = {}
    """The arguments, by name."""
    messages: Annotated[tuple[PromptMessage, ...], Meta(min_length=1)]
    """The messages, in order."""


def completable_variables(template: str, argument: str, others: Collection[str]) -> list[str]:
    """Return the template variables that are not other arguments; a valid template has one.

    Raises:
        ValueError: it is not a URI template.
    """
    variables = uris.template_variables(template)
    return [name for name in variables if name == argument or name not in others]


def placeholder_names(text: str) -> Iterator[str]:
    """Yield the name in each pair of single braces.

    Raises:
        ValueError: a brace is neither doubled nor part of `{name}`.
    """
    if set("{}") & set(_PLACEHOLDER.sub("", text)):
        raise ValueError("an unpaired brace; write '{{' and '}}' for literal braces")
    return (match[1] for match in _PLACEHOLDER.finditer(text) if match[1] is not None)


def filled_text(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values filled in; braces in a value stay as they are."""

    def part(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else values.get(match[1], "")

    return _PLACEHOLDER.sub(part, text)
