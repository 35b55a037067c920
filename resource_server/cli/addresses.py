"""Addresses on the command line: URIs of resources, or paths below the sources before them."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from resource_server import uris
from resource_server.catalog.near_resources import MAX_SUGGESTIONS
from resource_server.cli import console
from resource_server.manifest import Manifest, MountSpec, sources
from resource_server.manifest.databases.database_url import is_database_url
from resource_server.protocol import revisions
from resource_server.protocol.in_process_client import ErrorReply, LocalClient

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WITH_PARAMETERS = re.compile(r"([^?].*?)\?([A-Za-z_][\w.]*=.*)", re.DOTALL)
_UNDECODED = re.compile("[\udc80-\udcff]")


class Candidate(NamedTuple):
    """What a path may mean."""

    uri: str
    """Without URI parameters."""
    parameters: str
    """As typed, after `?`."""
    file: str | None
    """Path of the file or folder, below a served folder."""

    @property
    def whole(self) -> str:
        """The URI with its parameters."""
        return f"{self.uri}?{self.parameters}" if self.parameters else self.uri


def is_uri(word: str) -> bool:
    """Return whether an address is a URI; with `./` before it, the same word is a path."""
    return _SCHEME.match(word) is not None


def typed_uri(word: str) -> str:
    """Return a typed URI with bytes that are not UTF-8 percent-encoded."""
    return _UNDECODED.sub(lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", word)


async def resolved(client: LocalClient, manifest: Manifest, word: str) -> str:
    """Return the URI of an address.

    A path that names nothing gives its likeliest URI, which is then not found, like a hidden one.

    Raises:
        click.UsageError: the path is outside everything that is served, or means several resources.
    """
    if is_uri(word):
        return typed_uri(word)
    found = candidates(word, manifest)
    if not found:
        raise console.usage_error(f"'{word}' is below no source")
    exist = [await _exists(client, each.uri) for each in found]
    there = [each for each, exists in zip(found, exist, strict=True) if exists]
    if len(there) > 1:
        known = ", ".join(each.uri for each in there[:MAX_SUGGESTIONS])
        raise console.usage_error(f"'{word}' may be any of {known}; give the URI")
    possible = [each for each, exists in zip(found, exist, strict=True) if exists is None] or found
    usual = [each for each in possible if each.parameters]  # few names have a question mark
    return (there or usual or possible)[0].whole


def explained(manifest: Manifest, word: str) -> Sequence[str]:
    """Return the URIs that an address may mean, of paths those of files that exist."""
    if is_uri(word):
        return [typed_uri(word)]
    found = candidates(word, manifest)
    there = [each.uri for each in found if each.file and os.path.lexists(each.file)]
    return there or [each.uri for each in found]


async def _exists(client: LocalClient, uri: str) -> bool | None:
    """Return whether a resource exists; None if that is not known, such as of a mount that is down.

    Reading it then gives the cause.
    """
    try:
        await client.request("resources/metadata", {"uri": uri})
    except ErrorReply as error:
        is_absent = error.code == revisions.LATEST_HANDSHAKE.resource_not_found
        return False if is_absent else None
    return True


def candidates(word: str, manifest: Manifest) -> list[Candidate]:
    """Return what a path may mean, the likeliest first, each URI once.

    A path starts at any mount, or at the current folder if it leads below a served folder.
    """
    found: dict[str, Candidate] = {}
    readings = [(word, "")]  # a file may be named like a path with parameters
    if parts := _WITH_PARAMETERS.fullmatch(word):
        readings.append((parts[1], typed_uri(parts[2])))
    for path, parameters in readings:
        for spec, segments in _places(path, manifest) if "\0" not in path else ():
            uri = uris.join(spec.base, segments)
            folder = folder_of(spec, manifest)
            file = None if folder is None else str(folder.joinpath(*segments))
            found.setdefault(uri, Candidate(uri, parameters, file))
    return list(found.values())


def _places(path: str, manifest: Manifest) -> Iterator[tuple[MountSpec, Sequence[str]]]:
    here = sorted(_below_folders(path, manifest), key=lambda place: len(place[1]))
    is_from_here = path.startswith(("./", "../")) or path in (".", "..")
    if is_from_here and here:
        yield from here
        return
    segments = [each for each in path.split("/") if each not in ("", ".")]
    if not path.startswith("/") and all(map(uris.is_segment, segments)):
        yield from ((spec, segments) for spec in manifest.mounts)
    yield from here


def _below_folders(path: str, manifest: Manifest) -> Iterator[tuple[MountSpec, Sequence[str]]]:
    """Return the mounts whose folder a path from the current folder leads into."""
    for spec in manifest.mounts:
        folder = folder_of(spec, manifest)
        for canonical in (os.path.abspath, os.path.realpath) if folder is not None else ():
            below = pathlib.Path(canonical(path)), pathlib.Path(canonical(str(folder)))
            if below[0].is_relative_to(below[1]):
                yield spec, below[0].relative_to(below[1]).parts
                break


def folder_of(spec: MountSpec, manifest: Manifest) -> pathlib.Path | None:
    """Return the folder that a mount serves; None if it serves something else."""
    if spec.path[:1] != ("roots",):
        return None
    if not isinstance(spec.use, str):
        path = cast("Any", spec.use).path
        return path if isinstance(path, pathlib.Path) else None
    path = spec.options.get("path")
    if not isinstance(path, str) or sources.is_object_url(path):
        return None
    return (spec.origin or manifest).directory / path


# -- the words of a command


class SourceArguments(NamedTuple):
    """The sources of a command, by default the current folder, and the addresses in them."""

    sources: Sequence[str]
    addresses: Sequence[str]


def with_one_address(words: Sequence[str]) -> SourceArguments:
    """Split the arguments of a command that takes one address, after its sources.

    Raises:
        click.UsageError: there is no address, or there are several.
    """
    found = _before_uris(words)
    if not found.addresses and words and not _is_url(words[-1]):
        found = SourceArguments(words[:-1], words[-1:])
    if not found.addresses:
        raise console.usage_error("the URI or path of a resource is missing; `list` prints URIs")
    return _at_most_one(found)


def with_addresses(words: Sequence[str], *, several: bool = True) -> SourceArguments:
    """Split the arguments of a command whose addresses are optional.

    The first word is a source, unless it is a URI. A further one is a source if it exists and is
    not below a source before it, or if it is a database.

    Raises:
        click.UsageError: there are several addresses, but not `several` allowed.
    """
    found = _before_uris(words)
    for at in range(1, len(found.sources)):
        if _is_address(found.sources[at], found.sources[:at]):
            split = SourceArguments(words[:at], words[at:])
            return split if several else _at_most_one(split)
    return found if several else _at_most_one(found)


def _before_uris(words: Sequence[str]) -> SourceArguments:
    """Split arguments before the first URI."""
    for at, word in enumerate(words):
        is_source = sources.is_source(word) if at == 0 else _is_url(word)
        if is_uri(word) and not is_source:
            return SourceArguments(words[:at], words[at:])
    return SourceArguments(words, ())


def _at_most_one(found: SourceArguments) -> SourceArguments:
    if len(found.addresses) > 1:
        raise console.usage_error(f"expected one URI, found {len(found.addresses)}")
    return found


def _is_address(word: str, before: Sequence[str]) -> bool:
    """Return whether a word is a path in a source before it.

    Raises:
        click.UsageError: it is also the name of another source.
    """
    if _is_url(word) or sources.is_database_file(word):
        return False
    is_here = os.path.lexists(word)
    here = pathlib.Path(os.path.realpath(word))
    folders = [pathlib.Path(os.path.realpath(source)) for source in before if _is_folder(source)]
    if is_here and any(here.is_relative_to(folder) for folder in folders):
        return True
    is_there = any(os.path.lexists(folder / word) for folder in folders)
    if is_here and is_there and not word.startswith((".", "/")):
        raise console.usage_error(f"'{word}' is here and in a source; write ./{word}, or the URI")
    return not is_here


def _is_folder(source: str) -> bool:
    return not _is_url(source) and pathlib.Path(source).is_dir()


def _is_url(word: str) -> bool:
    """Return whether a word is the URL of a source: of a database, or in object storage."""
    return is_database_url(word) or sources.is_object_url(word)
