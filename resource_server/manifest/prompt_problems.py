"""What is wrong with prompts beyond the types of their options: names, braces, URIs."""

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
    """Looks at prompts as the manifest has them, so that all problems are found at once."""

    decoder: Decoder
    positions: Positions
    bases: Collection[str] | None
    """The canonical base URIs of all mounts; None where some are not known."""

    def note(self, raw: object, path: DataPath) -> None:
        """Note every problem of the prompt at `path`."""
        self._note_name(prompts.PROMPT_NAME, "letter or digit", "those, '.', '_' or '-'", path)
        raw = raw if is_mapping(raw) else {}
        arguments, messages = raw.get("arguments"), raw.get("messages")
        named = arguments if is_mapping(arguments) else {}
        for name, argument in named.items():
            at = (*path, "arguments", name)
            self._note_name(prompts.ARGUMENT_NAME, "letter or '_'", "those and digits", at)
            for complete in self._texts(argument, at, "complete"):
                self._note_complete(complete, name, named, (*at, "complete"))
        for number, message in enumerate(messages if is_list(messages) else ()):
            at = (*path, "messages", number)
            for text in self._texts(message, at, "text"):
                self._note_text(text, named, (*at, "text"))
            for resource in self._texts(message, at, "resource"):
                self._note_resource(resource, named, (*at, "resource"))

    def _texts(self, raw: object, path: DataPath, option: str) -> Iterable[str]:
        """Return the text of an option; none where something else is noted of it already."""
        value = raw.get(option) if is_mapping(raw) else None
        if not isinstance(value, str) or (*path, option) in self.positions.unset:
            return ()
        return (value,)

    def _note_name(self, pattern: str, first: str, others: str, path: DataPath) -> None:
        if not re.fullmatch(pattern, str(path[-1])):
            words = f"a name begins with a {first} and goes on with {others}, 64 at most"
            self.decoder.refuse(path, words, at_key=True)

    def _note_text(self, text: str, named: Collection[str], at: DataPath) -> None:
        try:
            self._note_unknown(prompts.names_in(text), named, at)
        except ValueError as error:
            self.decoder.refuse(at, str(error))

    def _note_unknown(self, names: Iterable[str], named: Collection[str], at: DataPath) -> None:
        for name in dict.fromkeys(names):
            if name in named:
                continue
            if at in self.positions.written:  # it may be part of a secret
                message = "names no argument with what came out of the environment"
            elif not re.fullmatch(prompts.ARGUMENT_NAME, name):
                message = f"no argument is '{printable(name)}'; write '{{{{' and '}}}}' for braces"
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
        own = prompts.completed(template, argument, named)
        if len(own) > 1:
            message = f"names several variables; all but {{{argument}}} have to be other arguments"
        elif not own:
            message = f"names no variable for what is completed: {_EXAMPLE}"
        elif not _ends_in(template, own[0]):
            message = f"the variable has to be the end of the URI, after a slash: {_EXAMPLE}"
        else:
            return
        self.decoder.refuse(at, message)

    def _is_template(self, template: str, at: DataPath) -> bool:
        """Note what is wrong with a URI of arguments; return whether it is one."""
        try:
            uris.template_variables(template)
        except ValueError:
            held = self.decoder.found(template, at)
            self.decoder.refuse(at, f"expected a URI template such as {_EXAMPLE}, found {held}")
            return False
        if self.bases is not None and not _belongs(template, self.bases):
            known = ", ".join(self.bases)
            self.decoder.refuse(at, f"begins with the URI of no mount; there are {known or 'none'}")
            return False
        return True


def _ends_in(template: str, variable: str) -> bool:
    before, _, expression = template.rpartition("{")
    names = expression.removesuffix("}").lstrip("+?&").split(",")
    is_query = expression[:1] in ("?", "&")
    return variable in names and (is_query or (before.endswith("/") and len(names) == 1))


def _belongs(template: str, bases: Iterable[str]) -> bool:
    """Whether all that a template can become is below one of the bases."""
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
