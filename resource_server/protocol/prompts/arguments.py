"""The arguments of a prompt: what was given, checked, and what stands in for what was not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from resource_server.errors import InvalidParameter
from resource_server.manifest.prompts import Prompt
from resource_server.manifest.wording import printable, quoted_value
from resource_server.runtime.near_name import did_you_mean

_MOST_TOLD = 5


def values_of(prompt: Prompt, given: Mapping[str, object]) -> dict[str, str]:
    """Return what is filled in for each argument that has a value.

    An empty one counts as not given: that is what forms send of a field that was left empty.

    Raises:
        InvalidParameter: with every problem.
    """
    problems = list(_problems(prompt, given))
    unknown = [name for name in given if name not in prompt.arguments]
    if problems or unknown:
        # There may be very many of these.
        problems += [
            f"there is no argument '{printable(name)}'{did_you_mean(name, prompt.arguments)}"
            for name in unknown[:_MOST_TOLD]
        ]
        told = problems[:_MOST_TOLD]
        more = len(problems) + len(unknown[_MOST_TOLD:]) - len(told)
        raise InvalidParameter("; ".join(told + ([f"and {more} more"] if more else [])))
    values = {name: given.get(name) or each.default for name, each in prompt.arguments.items()}
    return {name: value for name, value in values.items() if value and isinstance(value, str)}


def _problems(prompt: Prompt, given: Mapping[str, object]) -> Iterator[str]:
    for name, argument in prompt.arguments.items():
        value = given.get(name, "")
        if not isinstance(value, str):
            yield f"argument '{name}': expected text, found {quoted_value(value)}"
        elif argument.required and not value:
            yield f"argument '{name}' is required"
        elif value and argument.enum and value not in argument.enum:
            hint = did_you_mean(value, argument.enum)
            yield f"argument '{name}' is one of {', '.join(argument.enum)}{hint}"
