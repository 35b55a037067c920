"""Decoding of plain manifest data into annotated types, with a position for every problem.

Option classes (dataclasses, Structs), containers, choices and paths are decoded here, so that each
problem is reported at its own position; pydantic decodes single values and all other types.
"""

from __future__ import annotations

import pathlib
import types
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from resource_server.manifest.data import DataPath, Positions, Problems, is_list, is_mapping
from resource_server.manifest.model import MountOptions
from resource_server.manifest.typed_options import (
    MISSING,
    Option,
    described_type,
    has_options,
    is_path_type,
    item_types,
    list_factory,
    literal_values,
    mapping_types,
    options_of,
    pydantic_annotation,
    union_members,
    unwrap_annotated,
)
from resource_server.manifest.wording import one_line, quoted_value, unknown_name
from resource_server.runtime.near_name import did_you_mean
from resource_server.runtime.option_types import named_problem, option_problems

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

FindClass: TypeAlias = Callable[[str, pathlib.Path], type | None]
"""Finds the class of a provider reference in a manifest of the given folder.

None leaves the options unchecked; a `ValueError` explains why there is no such provider.
"""

_FAILED: Final = object()

_NO_OPTIONS: Mapping[str, Option] = types.MappingProxyType({})
_SINGLE = (str, int, float, bool)

_BOUNDS = {
    "greater_than_equal": "{ge:.15g} or more",
    "greater_than": "more than {gt:.15g}",
    "less_than_equal": "{le:.15g} or less",
    "less_than": "less than {lt:.15g}",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of {max_length} or fewer characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "too_short": "{min_length} or more items",
    "too_long": "{max_length} or fewer items",
}


class Decoder:
    """Decodes the data of one manifest; paths are resolved against `directory`."""

    def __init__(self, directory: pathlib.Path, positions: Positions, problems: Problems) -> None:
        self._directory = directory
        self._positions = positions
        self._problems = problems

    def build(
        self,
        cls: type,
        raw: object,
        path: DataPath,
        *,
        siblings: Mapping[str, Option] = _NO_OPTIONS,
    ) -> Any | None:
        """Return an instance of `cls` from its options, or None after adding problems.

        `siblings` are further options of the same mapping: checked, but not passed to `cls`.
        """
        value = self._options(cls, raw, path, siblings)
        return None if value is _FAILED else value

    def provider(
        self,
        use: str,
        options: Mapping[str, object],
        path: DataPath,
        find_class: FindClass,
        *,
        siblings: Mapping[str, Option] = _NO_OPTIONS,
    ) -> Any | None:
        """Return the provider of the mount at `path`; None if it could not be made."""
        try:
            cls = find_class(use, self._directory)
            if cls is not None:
                every = {**options_of(MountOptions), **siblings}
                return self.build(cls, options, path, siblings=every)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the code of a plugin
            self.refuse((*path, "use"), self._reason(error))
        return None

    def refuse(self, path: DataPath, message: str, *, at_key: bool = False) -> Any:
        """Add a problem with the value, or with the key, at `path`."""
        place = self._positions.key(path) if at_key else self._positions.value(path)
        self._problems.add(place, path, message)
        return _FAILED

    def found(self, raw: object, path: DataPath) -> str:
        """Return the value at `path` in words, without the values of environment variables."""
        return quoted_value(self._positions.written.get(path, raw))

    def _options(
        self,
        cls: type,
        raw: object,
        path: DataPath,
        siblings: Mapping[str, Option] = _NO_OPTIONS,
    ) -> Any:
        raw = {} if raw is None else raw
        if not is_mapping(raw):
            return self._unexpected(cls, raw, path)
        try:
            known = options_of(cls)
        except Exception as error:
            return self.refuse(
                path,
                f"the options of {cls.__name__} cannot be determined: {one_line(error)}",
                at_key=True,
            )
        # The class's own options come first in suggestions and win over siblings.
        everything = {**known, **siblings, **known}
        values = {
            name: self._option(everything, name, value, (*path, name))
            for name, value in raw.items()
        }
        missing = [
            name for name, option in known.items() if option.default is MISSING and name not in raw
        ]
        for name in missing:
            self.refuse(path, f"option '{name}' is missing", at_key=True)
        given = {name: value for name, value in values.items() if value is not _FAILED}
        checks = getattr(cls, "option_checks", {})
        problems = [
            named_problem(name, self._reason(error))
            for name, error in option_problems(checks, given)
        ]
        for problem in problems:
            self.refuse(*(self._option_of(problem, given, path) or (path, problem)))
        if missing or problems or _failed(values.values()):
            return _FAILED
        return self._construct(cls, {name: values[name] for name in known if name in values}, path)

    def _option(self, known: Mapping[str, Option], name: str, raw: object, path: DataPath) -> Any:
        if name in known:
            return self._value(known[name].annotation, raw, path)
        return self.refuse(path, unknown_name("option", name, known), at_key=True)

    def _construct(self, cls: type, values: Mapping[str, object], path: DataPath) -> Any:
        try:
            return cls(**values)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the code of a plugin
            reason, text = self._reason(error), self._positions.without_secrets(error)
            # Each line is a problem if all start with the option that they are about.
            lines = text.splitlines() if isinstance(error, ValueError) else []
            found = [self._option_of(one_line(line), values, path) for line in lines]
            is_each = bool(found) and all(found)
            for problem in found if is_each else [self._option_of(reason, values, path)]:
                self.refuse(*problem) if problem else self.refuse(path, reason, at_key=True)
            return _FAILED

    def _option_of(
        self, message: str, values: Mapping[str, object], path: DataPath
    ) -> tuple[DataPath, str] | None:
        """Return the path of the option that a message starts with, and the rest of the message."""
        names, colon, rest = message.partition(": ")
        at = self._option_named(names, values, path) if colon else None
        if at is None:
            return None
        names, colon, more = rest.partition(": ")
        if colon and (inner := self._positions.named(at, names)) != at:
            return inner, more
        return at, rest

    def _option_named(
        self, words: str, values: Mapping[str, object], path: DataPath
    ) -> DataPath | None:
        """Return the path that `secrets`, `Filesystem.secrets` or `queries.top.sql` names."""
        first, _, rest = words.partition(".")
        if first in values:
            return self._positions.named((*path, first), rest)
        last = words.rpartition(".")[2]
        return (*path, last) if last in values else None

    def _reason(self, error: BaseException) -> str:
        """Return the message of a plugin's error; only a `ValueError` is meant for the operator."""
        text = self._positions.scrub(error)
        return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"

    def _value(self, annotation: Any, raw: object, path: DataPath) -> Any:
        if path in self._positions.unset:
            return _FAILED
        inner, metadata = unwrap_annotated(annotation)
        members = union_members(inner)
        if len(members) > 1:
            return self._union(inner, members, raw, path)
        if choices := literal_values(inner):
            return self._choice(inner, choices, raw, path)
        if has_options(inner):
            return self._options(inner, raw, path)
        if kinds := mapping_types(inner):
            value = self._mapping(kinds, inner, raw, path)
        elif make := list_factory(inner):
            value = self._list(make, inner, raw, path)
        elif is_path_type(inner):
            value = self._path(inner, raw, path)
        else:
            return self._single(annotation, raw, path)
        if metadata and value is not _FAILED:
            return self._single(Annotated[(type(value), *metadata)], value, path)
        return value

    def _union(self, annotation: Any, members: tuple[Any, ...], raw: object, path: DataPath) -> Any:
        if raw is None and types.NoneType in members:
            return None
        members = tuple(arm for arm in members if arm is not types.NoneType)
        if len(members) == 1:
            return self._value(members[0], raw, path)
        fitting = [arm for arm in members if _fits(arm, raw)]
        if len(fitting) == 1 and not _is_switch(fitting[0]):
            if choices := literal_values(unwrap_annotated(fitting[0])[0]):
                return self._choice(annotation, choices, raw, path)
            return self._value(fitting[0], raw, path)
        # If both text and numbers are allowed, "5" is text.
        fitting.sort(key=lambda arm: unwrap_annotated(arm)[0] is not type(raw))
        for arm in fitting:
            value = self._value_or_failed(arm, raw, path)
            if value is not _FAILED:
                return value
        return self._unexpected(annotation, raw, path)

    def _value_or_failed(self, annotation: Any, raw: object, path: DataPath) -> Any:
        """Return a decoded value, or `_FAILED` without adding problems."""
        problems, self._problems = self._problems, Problems(self._problems.file)
        try:
            return self._value(annotation, raw, path)
        finally:
            self._problems = problems

    def _choice(
        self, annotation: Any, choices: tuple[Any, ...], raw: object, path: DataPath
    ) -> Any:
        for choice in choices:
            if type(choice) is type(raw) and choice == raw:
                return choice
        words = [choice for choice in choices if isinstance(choice, str)]
        hint = did_you_mean(raw, words) if isinstance(raw, str) else ""
        return self._unexpected(annotation, raw, path, hint)

    def _mapping(self, kinds: tuple[Any, Any], annotation: Any, raw: object, path: DataPath) -> Any:
        if raw is None:
            return {}
        if not is_mapping(raw):
            return self._unexpected(annotation, raw, path)
        key_type, value_type = kinds
        values: dict[Any, Any] = {}
        for key, value in raw.items():
            at = (*path, key)
            values[self._value(key_type, key, at)] = self._value(value_type, value, at)
        return _FAILED if _failed(values) or _failed(values.values()) else values

    def _list(
        self,
        make: Callable[[Iterable[Any]], Any],
        annotation: Any,
        raw: object,
        path: DataPath,
    ) -> Any:
        if not is_list(raw):
            hint = "; put it in brackets" if isinstance(raw, str) else ""
            return self._unexpected(annotation, raw, path, hint)
        kinds = item_types(annotation, len(raw))
        if len(kinds) != len(raw):
            return self.refuse(path, f"expected {len(kinds)} items, found {len(raw)}")
        values = [
            self._value(kind, item, (*path, index))
            for index, (kind, item) in enumerate(zip(kinds, raw, strict=True))
        ]
        try:
            return _FAILED if _failed(values) else make(values)
        except TypeError:  # a set of unhashable items
            return self._unexpected(annotation, raw, path)

    def _path(self, cls: type, raw: object, path: DataPath) -> Any:
        if not isinstance(raw, str) or not raw or "\0" in raw:
            return self._unexpected(cls, raw, path)
        try:
            return cls(self._directory / pathlib.Path(raw).expanduser())
        except RuntimeError:
            return self.refuse(path, f"found {self.found(raw, path)}, but there is no such user")

    def _single(self, annotation: Any, raw: object, path: DataPath) -> Any:
        base, _ = unwrap_annotated(annotation)
        if base is Any or base is object:
            return raw
        variable = self._positions.undecoded.get(path)
        # Such text cannot be encoded. Paths may have such bytes, and file URLs are ASCII by now.
        if variable is not None and isinstance(raw, str) and not raw.isascii():
            return self.refuse(path, f"environment variable {variable} is not UTF-8")
        if isinstance(raw, bool) and base in (int, float):
            return self._unexpected(annotation, raw, path)
        is_plain = not isinstance(raw, str) or raw.isascii()
        if is_plain and annotation is type(raw) and annotation in _SINGLE:
            return raw
        # Imported here: a manifest whose values need no conversion starts in half the time.
        from pydantic import TypeAdapter, ValidationError
        from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

        try:
            return TypeAdapter(pydantic_annotation(annotation)).validate_python(raw)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                self._explain(annotation, raw, path, each)
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            reason = one_line(error).partition(". ")[0]
            self.refuse(path, f"the type of this option is not supported: {reason}", at_key=True)
        return _FAILED

    def _explain(self, annotation: Any, raw: object, path: DataPath, error: ErrorDetails) -> None:
        """Add one of pydantic's errors in plain words."""
        at, value = _follow(raw, path, error["loc"])
        kind, context = error["type"], error.get("ctx", {})
        if kind == "value_error":
            reason = self._positions.scrub(context.get("error", error["msg"]))
            self.refuse(at, f"{reason} (found {self.found(value, at)})")
        elif kind in _BOUNDS:
            expected = _BOUNDS[kind].format_map(context)
            self.refuse(at, f"expected {expected}, found {self.found(value, at)}")
        elif kind.endswith(("_type", "_parsing", "int_from_float")) and at == path:
            self._unexpected(annotation, value, at)
        else:
            reason = self._positions.scrub(error["msg"])
            reason = reason.replace("Input should be", "expected")
            self.refuse(at, f"{reason[:1].lower()}{reason[1:]}, found {self.found(value, at)}")

    def _unexpected(self, annotation: Any, raw: object, path: DataPath, hint: str = "") -> Any:
        expected = described_type(annotation)
        if expected == "text" and isinstance(raw, int | float):
            hint = "; put it in quotes"
        return self.refuse(path, f"expected {expected}, found {self.found(raw, path)}{hint}")


def _failed(values: Iterable[object]) -> bool:
    return any(value is _FAILED for value in values)


def _fits(arm: Any, raw: object) -> bool:
    """Return whether a union member has the shape of the data: mapping, list or single value."""
    inner, _ = unwrap_annotated(arm)
    if is_mapping(raw):
        return has_options(inner) or mapping_types(inner) is not None or _opaque(inner)
    if is_list(raw):
        return list_factory(inner) is not None or _opaque(inner)
    if raw is None and has_options(inner):
        return True  # all options default
    return not has_options(inner) and not mapping_types(inner) and not list_factory(inner)


def _is_switch(arm: Any) -> bool:
    """Return whether a type allows only booleans; errors must then name the alternatives too."""
    values = literal_values(unwrap_annotated(arm)[0])
    return bool(values) and all(isinstance(value, bool) for value in values)


def _opaque(annotation: Any) -> bool:
    """Return whether only pydantic knows the structure of a type."""
    return not (literal_values(annotation) or is_path_type(annotation) or annotation in _SINGLE)


def _follow(raw: object, path: DataPath, location: Iterable[str | int]) -> tuple[DataPath, object]:
    """Follow pydantic's error location into the data, skipping parts that are type names."""
    for part in location:
        if is_mapping(raw) and part in raw:
            raw = raw[str(part)]
        elif is_list(raw) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        else:
            continue
        path = (*path, part)
    return path, raw
