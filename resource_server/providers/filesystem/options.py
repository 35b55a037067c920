"""Structured options of a folder in the manifest, and their validation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import Struct

from resource_server import uris
from resource_server.access import OPEN, Access
from resource_server.conversion import registry
from resource_server.provider import Annotations, ByteSize
from resource_server.providers.filesystem.encoding import canonical_encoding
from resource_server.providers.filesystem.exposure.patterns import Patterns
from resource_server.runtime.near_name import as_typed, did_you_mean
from resource_server.runtime.option_types import OptionChecks, check_options

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

WatchMode = Literal["auto", "inotify", "watchfiles", "poll", "off"]
SkillMode = Literal["auto", "off"]
ConvertMode = Literal["auto", "off", False]
"""`off` is false where YAML 1.1 has written it."""
SymlinkPolicy = Literal["deny", "within-root"]

_WILDCARDS = frozenset("*?")
"""Without `[`: web frameworks use directories such as `[slug]` as routes."""
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?", re.ASCII)


class DocumentKind(str):
    """A kind of document that can be converted, as an option type: `pdf` or a media type."""

    @classmethod
    def parse(cls, value: object) -> DocumentKind:
        """Return a kind by its name.

        Raises:
            ValueError: there is no converter for it.
        """
        if isinstance(value, str) and registry.media_type_of(value):
            return cls(value)
        near = did_you_mean(value, registry.known_kinds()) if isinstance(value, str) else ""
        raise ValueError(f"not a kind of document that can be converted, such as pdf{near}")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        # Imported here: a folder served without a manifest never loads pydantic.
        from pydantic_core import core_schema

        names = core_schema.literal_schema([*registry.known_kinds()])
        media_type = core_schema.str_schema(pattern="/")
        return core_schema.no_info_plain_validator_function(
            cls.parse, json_schema_input_schema=core_schema.union_schema([names, media_type])
        )


class Secrets(Struct, frozen=True):
    """Exceptions from the secrets deny-list."""

    allow: tuple[str, ...] = ()
    """Patterns of the deny-list, as written there, or of harmless files. They also expose what no
    root serves otherwise: its manifest, and databases that the manifest serves."""

    option_checks: ClassVar[OptionChecks] = {
        "allow": lambda allow: check_patterns("allow", allow),
    }

    def __post_init__(self) -> None:
        check_options(self)


class DirectoryOptions(Struct, frozen=True):
    """Options of one directory and all below it; None inherits.

    `title` and `description` apply to the directory alone. Patterns are relative to the directory
    and replace inherited ones. `hidden` and `gitignore` apply to the directory itself, too, so they
    can expose an ignored or dotted directory.
    """

    title: str | None = None
    """Display name."""
    description: str | None = None
    """Description for people and models."""
    annotations: Annotations | None = None
    """Audience and priority of its contents."""
    listed: bool = True
    """False leaves it and all below out of the global listing."""
    readable: bool | None = None
    """False lists its documents but refuses to read them."""
    exposed: bool = True
    """False hides it and all below."""
    access: Access = OPEN
    """Scopes that a caller needs to see it and all below."""
    include: tuple[str, ...] | None = None
    """As for the root, relative to the directory."""
    exclude: tuple[str, ...] | None = None
    """As for the root, relative to the directory."""
    gitignore: bool | None = None
    """As for the root. False also exposes the directory itself if an ignore file names it."""
    hidden: bool | None = None
    """As for the root. True also exposes the directory itself if its name begins with a dot."""
    max_size: ByteSize | None = None
    """As for the root."""
    encoding: str | None = None
    """As for the root."""
    optional: bool = False
    """Whether the directory may come later. Otherwise an entry without a directory is a mistake; if
    it hides anything and a directory has a name like it, nothing of the folder is served."""

    option_checks: ClassVar[OptionChecks] = {
        "include": lambda patterns: check_patterns("include", patterns or ()),
        "exclude": lambda patterns: check_patterns("exclude", patterns or ()),
        "encoding": lambda name: name is None or canonical_encoding(name),
    }

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def protects(self) -> bool:
        """Whether anything would be seen, by anybody, that is not seen because of it."""
        narrowing = (self.include, self.exclude, self.gitignore or None)
        return (
            not (self.exposed and self.listed)
            or bool(self.access.scopes)
            or False in (self.readable, self.hidden)
            or any(each is not None for each in narrowing)
        )


def check_patterns(option: str, patterns: Sequence[str]) -> None:
    """Validate patterns: each must be able to match something.

    Raises:
        ValueError: names the pattern, for the manifest's author.
    """
    parsed = Patterns(patterns)
    for index, pattern in enumerate(patterns):
        if index in parsed.unusable or index not in parsed.lines:
            raise ValueError(f"{option}: {pattern!r} is no pattern that can match anything")


def check_types(types: Mapping[str, str]) -> None:
    """Validate media types.

    Raises:
        ValueError: names the pattern and its value, for the manifest's author.
    """
    for pattern, media_type in types.items():
        if not _MEDIA_TYPE.fullmatch(media_type):
            raise ValueError(f"types: {media_type!r} for {pattern!r} is no media type as text/html")


def offered_converters(convert: ConvertMode | Sequence[str]) -> registry.Converters:
    """Return the converters that the option `convert` allows.

    Raises:
        ValueError: there is no converter for a kind.
    """
    if convert == "auto":
        return registry.Converters()
    if isinstance(convert, str | bool):
        return registry.Converters(())
    kinds = [DocumentKind.parse(kind) for kind in convert]
    return registry.Converters([registry.media_type_of(kind) or "" for kind in kinds])


def directory_keys(directories: Mapping[str, DirectoryOptions]) -> dict[str, DirectoryOptions]:
    """Return the options by normalised path below the root: no slash at either end, no `.`.

    Names are as people type them (`as_typed`).

    Raises:
        ValueError: a path is absolute, empty, a pattern, given twice, or contains `..`.
    """
    found: dict[str, DirectoryOptions] = {}
    for written, options in directories.items():
        segments = [segment for segment in written.split("/") if segment not in ("", ".")]
        key = as_typed("/".join(segments))
        if not segments or written.startswith("/") or not all(map(uris.is_segment, segments)):
            raise ValueError(f"directories: {written!r} is no path below the root, as docs/api")
        if not _WILDCARDS.isdisjoint(key):
            raise ValueError(
                f"directories.{written}: is a pattern and names no directory; write the path of "
                "each, or the pattern into 'exclude'"
            )
        if key in found:
            raise ValueError(f"directories: {written!r} is given twice")
        found[key] = options
    return found
