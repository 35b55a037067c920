"""Several sources as one manifest: names made unique, clashes reported.

What a manifest says stays as it is; folders and databases without one take names that are free.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from msgspec import structs

from resource_server.buckets.location import is_object_url, parse_location
from resource_server.errors import Diagnostic, ManifestError
from resource_server.manifest.audit import AuditFileOptions
from resource_server.manifest.audit_place import place_that_serves
from resource_server.manifest.databases.database_url import redacted_url
from resource_server.manifest.http import Http
from resource_server.manifest.model import Manifest, MountSpec, Origin, ServerOptions, Tools
from resource_server.manifest.sources import database_name_from_title, name_from_title, unused_name
from resource_server.manifest.wording import printable

_Section: TypeAlias = Literal["server", "http", "tools", "audit"]
_DEFAULTS: Mapping[_Section, object] = {
    "server": ServerOptions(),
    "http": Http(),
    "tools": Tools(),
    "audit": None,
}
"""The sections that hold for the whole server, as they are without a manifest."""


class NamedSource(NamedTuple):
    """A source as it was named, with its manifest."""

    source: str
    manifest: Manifest

    @property
    def specs(self) -> tuple[MountSpec, ...]:
        """Its mounts, and the patterns for those of the client's folders."""
        return (*self.manifest.mounts, *self.manifest.client_roots)

    @property
    def is_implied(self) -> bool:
        """Whether it is a folder or database without a manifest."""
        return self.manifest.file is None

    @property
    def identity(self) -> object:
        """Equal for two names of the same source."""
        if self.manifest.file is not None:
            return os.path.realpath(self.manifest.file)
        spec = self.manifest.mounts[0]
        if is_object_url(self.source):
            return self.source.removesuffix("/")
        if spec.path[0] == "roots":
            return os.path.realpath(self.manifest.directory)
        return cast("Any", spec.use).url


def joined(parts: Sequence[NamedSource]) -> Manifest:
    """Return the manifest of several sources; of a single one, its own.

    A source that is named twice counts once. No folder serves the manifests and the databases of
    other sources as files.

    Raises:
        ManifestError: two manifests have the same base URI, the same prompt, or different options
            for the whole server.
    """
    parts = list({part.identity: part for part in reversed(parts)}.values())[::-1]
    if len(parts) == 1:
        return parts[0].manifest
    if problems := [*_clashes(parts), *_differences(parts)]:
        raise ManifestError(problems)
    withheld = {file: why for part in parts for file, why in part.manifest.withheld.items()}
    implied = iter(_renamed(parts))
    names: set[str] = set()
    specs: list[MountSpec] = []
    for part in parts:
        for spec in (next(implied),) if part.is_implied else part.specs:
            name = unused_name(spec.name, names.__contains__)
            names.add(name)
            origin = Origin(directory=part.manifest.directory, positions=part.manifest.positions)
            named = structs.replace(spec, name=name, origin=origin)
            specs.append(_withholding(named, withheld))
    if problems := [*_served_records(parts, specs)]:
        raise ManifestError(problems)
    return _whole(parts, specs, withheld)


def _whole(
    parts: Sequence[NamedSource], specs: Sequence[MountSpec], withheld: Mapping[str, str]
) -> Manifest:
    manifests = [part.manifest for part in parts]
    sections: dict[_Section, Any] = {
        section: next((each for _, each in _set(parts, section)), default)
        for section, default in _DEFAULTS.items()
    }
    return Manifest(
        file=None,
        directory=manifests[0].directory,
        **sections,
        mounts=tuple(spec for spec in specs if spec.client is None),
        client_roots=tuple(spec for spec in specs if spec.client is not None),
        prompts={name: prompt for each in manifests for name, prompt in each.prompts.items()},
        prompt_origins={
            name: Origin(directory=each.directory, positions=each.positions)
            for each in manifests
            for name in each.prompts
        },
        withheld=withheld,
    )


def _withholding(spec: MountSpec, withheld: Mapping[str, str]) -> MountSpec:
    """Return the mount of a folder such that it does not serve these files."""
    if spec.use == "filesystem":
        return structs.replace(spec, withheld={**withheld, **spec.withheld})
    if isinstance(spec.use, str) or not hasattr(spec.use, "withhold"):
        return spec
    # A new provider: the one of an earlier manifest may be serving.
    provider = dataclasses.replace(cast("Any", spec.use))
    provider.withhold(withheld)
    return structs.replace(spec, use=provider, withheld=withheld)


# -- clashes


def _clashes(parts: Sequence[NamedSource]) -> Iterator[Diagnostic]:
    """Return the base URIs and prompts that two manifests have."""
    bases: dict[str, NamedSource] = {}
    prompts: dict[str, NamedSource] = {}
    for part in parts:
        for spec in part.manifest.mounts if not part.is_implied else ():
            other = bases.setdefault(spec.base, part)
            if other is not part:
                reason = f"{_place(other)} already has the base URI {spec.base}"
                yield _problem(part, f"{reason}; give one of them another 'uri'")
        for name in part.manifest.prompts:
            other = prompts.setdefault(name, part)
            if other is not part:
                yield _problem(part, f"{_place(other)} already has the prompt '{name}'")


def _differences(parts: Sequence[NamedSource]) -> Iterator[Diagnostic]:
    """Return the options of the whole server in which two manifests differ."""
    for section in _DEFAULTS:
        (first, value), *others = [*_set(parts, section), (parts[0], None)]
        for part, other in others[:-1]:
            if other != value:
                reason = f"'{section}' holds for the whole server, and {_place(first)} has others"
                yield _problem(part, f"{reason}; keep one of them")


def _served_records(
    parts: Sequence[NamedSource], specs: Sequence[MountSpec]
) -> Iterator[Diagnostic]:
    """Return the records of reads that another source would serve."""
    for part in parts:
        audit = part.manifest.audit
        if not isinstance(audit, AuditFileOptions):
            continue
        if place_that_serves(audit.file, specs, part.manifest.directory) is not None:
            reason = "lies in another source, where clients could read it; name a file elsewhere"
            yield _problem(part, f"audit.file: {reason}")


def _set(parts: Sequence[NamedSource], section: _Section) -> Iterator[tuple[NamedSource, object]]:
    """Return the manifests that have options in a section, with these."""
    for part in parts:
        value: object = getattr(part.manifest, section)
        if value != _DEFAULTS[section]:
            yield part, value


def _problem(part: NamedSource, message: str) -> Diagnostic:
    return Diagnostic(_place(part), 0, 0, "", message)


def _place(part: NamedSource) -> str:
    return printable(redacted_url(part.source), longest=4096)


# -- names


def _renamed(parts: Sequence[NamedSource]) -> list[MountSpec]:
    """Return the mounts of the sources without a manifest, each with a base URI of its own.

    A name that several have is preceded by segments of the path above, as few as make it unique,
    or followed by a number.
    """
    implied = [part.manifest for part in parts if part.is_implied]
    taken = {spec.base for part in parts if not part.is_implied for spec in part.specs}
    depths = [0] * len(implied)
    while True:
        found = [_with_segments(each, depth) for each, depth in zip(implied, depths, strict=True)]
        count = Counter(spec.base for spec in found)
        deeper = [
            at
            for at, spec in enumerate(found)
            if (spec.base in taken or count[spec.base] > 1)
            and depths[at] < len(_segments_above(implied[at]))
        ]
        if not deeper:
            break
        for at in deeper:
            depths[at] += 1
    bases = taken | {base for base in count if count[base] == 1}
    for at, spec in enumerate(found):
        if spec.base in taken or count[spec.base] > 1:
            found[at] = _numbered(implied[at].mounts[0], bases.__contains__)
            bases.add(found[at].base)
    return found


def _with_segments(manifest: Manifest, depth: int) -> MountSpec:
    """Return the mount of a source, its name preceded by that many segments of its path."""
    spec = manifest.mounts[0]
    if not depth:
        return spec
    title = "/".join((*_segments_above(manifest)[-depth:], spec.title or spec.name))
    slug = name_from_title if spec.path[0] == "roots" else database_name_from_title
    return _with_name(structs.replace(spec, title=title), slug(title))


def _segments_above(manifest: Manifest) -> Sequence[str]:
    """Return the segments of the path above a folder or database file; none for a server's."""
    (spec,) = manifest.mounts
    if is_object_url(str(getattr(spec.use, "path", ""))):
        bucket, prefix = parse_location(cast("Any", spec.use).path)
        return (bucket, *prefix.split("/")[:-1])[:-1]
    folder = pathlib.Path(os.path.abspath(manifest.directory))  # noqa: PTH100 - links stay as they are
    if spec.path[0] == "roots":
        folder = folder.parent
    elif not manifest.withheld:
        return ()
    return folder.parts[1:]


def _numbered(spec: MountSpec, is_used: Callable[[str], bool]) -> MountSpec:
    return _with_name(spec, unused_name(spec.name, lambda name: is_used(_base(spec, name))))


def _with_name(spec: MountSpec, name: str) -> MountSpec:
    return structs.replace(spec, name=name, base=_base(spec, name))


def _base(spec: MountSpec, name: str) -> str:
    return f"{spec.base.removesuffix(f'{spec.name}/')}{name}/"
