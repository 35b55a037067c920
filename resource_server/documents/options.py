"""Options of every tree of documents in the manifest, and their validation."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import Struct

from resource_server.conversion import registry
from resource_server.documents.patterns import Patterns
from resource_server.provider import Template
from resource_server.runtime.near_name import did_you_mean
from resource_server.runtime.option_types import OptionChecks, check_options

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

ConvertMode = Literal["auto", "off", False]
"""`off` is false where YAML 1.1 has written it."""

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?", re.ASCII)

FORMAT_TEMPLATE = Template(
    "{+path}?format={format}",
    name="format",
    title="Document in another format",
    description="A document such as PDF as markdown or png; with &pages=3-7, those pages",
    type="document",
    optional=tuple(sorted(registry.PARAMETERS - {"format"})),
)
"""Documents in other formats, where there are converters."""


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


def reading_fingerprint(*options: object, over: int = 0) -> int:
    """Return a checksum of options, on top of `over`; `over` itself if all options are None."""
    if all(option is None for option in options):
        return over
    return zlib.crc32(repr(options).encode(), over)
