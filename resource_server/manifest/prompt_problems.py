"""Checks of prompts beyond the types of their options: names, placeholders, URIs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from resource_server import uris
from resource_server.errors import ResourceError
from resource_server.manifest import prompts
from resource_server.manifest.data import DataPath, Positions, is_list, is_mapping
from resource_server.manifest.decode import Decoder
from resource_server.manifest.wording import printable
from resource_server.runtime.near_name import did_you_mean

_EXAMPLE = "file:///project/{+file}"


@dataclass(frozen=True, slots=True)
class PromptProblems:
    """Checks prompts as plain data, so that all problems are reported together."""

    decoder: Decoder
    positions: Positions
    bases: Collection[str] | None
    """The canonical base URIs of all mounts; None if some are unknown."""

    def note(self, raw: object, path: DataPath) -> None:
        """Add every problem of the prompt at `path`."""
        self._note_name(prompts.PROMPT_NAME, "letter or digit", "those, '.', '_' or '-'", path)
        raw = raw if is_mapping(raw) else {}
        arguments, messages = raw.get("arguments"), raw.get("messages")
        named = arguments if is_mapping(arguments) else {}
        for name, argument in named.items():
            at = (*path, "arguments", name)
            self._note_name(prompts.ARGUMENT_NAME, "letter or '_'", "those and digits", at)
            for complete in self._given_text(argument, at, "complete"):
                self._note_complete(complete, name, named, (*at, "complete"))
        for number, message in enumerate(messages if is_list(messages) else ()):
            at = (*path, "messages", number)
            for text in self._given_text(message, at, "text"):
                self._note_text(text, named, (*at, "text"))
            for resource in self._given_text(message, at, "resource"):
                self._note_resource(resource, named, (*at, "resource"))

    def _given_text(self, raw: object, path: DataPath, option: str) -> Iterable[str]:
        """Return the text of an option, or nothing if the option is reported already."""
        value = raw.get(option) if is_mapping(raw) else None
        if not isinstance(value, str) or (*path, option) in self.positions.unset:
            return ()
        return (value,)

    def _note_name(self, pattern: str, first: str, others: str, path: DataPath) -> None:
        if not re.fullmatch(pattern, str(path[-1])):
            rule = f"a name starts with a {first} and continues with {others}, 64 at most"
            self.decoder.refuse(path, rule, at_key=True)

    def _note_text(self, text: str, named: Collection[str], at: DataPath) -> None:
        try:
            self._note_unknown(prompts.placeholder_names(text), named, at)
        except ValueError as error:
            self.decoder.refuse(at, str(error))

    def _note_unknown(self, names: Iterable[str], named: Collection[str], at: DataPath) -> None:
        for name in dict.fromkeys(names):
            if name in named:
                continue
            if at in self.positions.written:  # the name may be part of a secret
                message = "an environment variable here adds a placeholder that is not an argument"
            elif not re.fullmatch(prompts.ARGUMENT_NAME, name):
                message = f"no argument is named '{printable(name)}'"
                message += "; write '{{' and '}}' for braces"
            else:
                hint = did_you_mean(name, named) or "; add it to 'arguments'"
                message = f"there is no argument '{printable(name)}'{hint}"
            self.decoder.refuse(at, message)

    def _note_resource(self, template: str, named: Collection[str], at: DataPath) -> None:
        if self._is_template(template, at):
            self._note_unknown(uris.template_variables(template), named, at)

    def _note_complete(
        self, template: str, argument: str, named: Collection[str], at: DataPath
    ) -> None:
        if not self._is_template(template, at):
            return
        own = prompts.completable_variables(template, argument, named)
        if len(own) > 1:
            message = f"several unknown variables; all but {{{argument}}} must be other arguments"
        elif not own:
            message = f"no variable for the argument to complete; write one, as in {_EXAMPLE}"
        elif not _ends_in(template, own[0]):
            message = f"the variable must end the URI, after a slash, as in {_EXAMPLE}"
        else:
            return
        self.decoder.refuse(at, message)

    def _is_template(self, template: str, at: DataPath) -> bool:
        """Check a URI template; return whether it is valid."""
        try:
            uris.template_variables(template)
        except ValueError:
            held = self.decoder.found(template, at)
            self.decoder.refuse(at, f"expected a URI template such as {_EXAMPLE}, found {held}")
            return False
        if self.bases is not None and not _belongs(template, self.bases):
            known = ", ".join(self.bases)
            self.decoder.refuse(
                at, f"the URI is outside all mounts; known base URIs: {known or 'none'}"
            )
            return False
        return True


def _ends_in(template: str, variable: str) -> bool:
    before, _, expression = template.rpartition("{")
    names = expression.removesuffix("}").lstrip("+?&").split(",")
    is_query = expression[:1] in ("?", "&")
    return variable in names and (is_query or (before.endswith("/") and len(names) == 1))


def _belongs(template: str, bases: Iterable[str]) -> bool:
    """Return whether every expansion of a template is below one of the bases."""
    fixed, brace, rest = template.partition("{")
    if brace and rest[:1] != "?":
        fixed = fixed[: fixed.rfind("/") + 1]
    try:
        found = uris.parse(fixed)
    except ResourceError:
        return False
    return any(
        (found.scheme, found.authority) == (base.scheme, base.authority)
        and found.path[: len(base.path)] == base.path
        for base in map(uris.parse, bases)
    )
