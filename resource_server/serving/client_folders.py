"""Folders offered by the client (MCP roots), as mounts of the manifest."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Sequence

import msgspec

from resource_server import uris
from resource_server.errors import InvalidParameter, ResourceNotFound
from resource_server.manifest import Manifest, MountSpec, sources
from resource_server.manifest.audit import AuditFileOptions
from resource_server.manifest.wording import printable
from resource_server.provider import ClientRoot

MAX_FOLDERS = 32


class OfferedFolder(msgspec.Struct, frozen=True):
    """A folder of the client: its title and its real path."""

    title: str
    path: pathlib.Path | None = None
    problem: str | None = None
    """Why it cannot be served under any manifest."""


class ClientFolderMounts(msgspec.Struct, frozen=True):
    """The mounts of the served folders, and the reasons why others are refused."""

    mounts: tuple[MountSpec, ...] = ()
    refused: tuple[str, ...] = ()


def offered_folders(roots: Sequence[ClientRoot]) -> list[OfferedFolder]:
    """Return the folders on this machine. Blocks on the file system."""
    return [_found(root) for root in roots[:MAX_FOLDERS]] + [
        OfferedFolder(_title(root), problem=f"only the first {MAX_FOLDERS} are served")
        for root in roots[MAX_FOLDERS : MAX_FOLDERS + 1]
    ]


def _found(root: ClientRoot) -> OfferedFolder:
    title = _title(root)
    try:
        path = pathlib.Path(os.path.realpath(_local(root.uri), strict=True))
        if not path.is_dir():
            return OfferedFolder(title, problem="it is not a folder")
    except ValueError as error:
        return OfferedFolder(title, problem=str(error))
    except OSError as error:
        return OfferedFolder(
            title, problem=f"it cannot be opened: {(error.strerror or '').lower()}"
        )
    return OfferedFolder(title, path)


def _title(root: ClientRoot) -> str:
    last = root.uri.partition("?")[0].rstrip("/").rpartition("/")[2]
    return uris.display(root.name or uris.unquote_path(last)) or "root"


def _local(uri: str) -> pathlib.Path:
    """Return the local path of a `file:` URI.

    Raises:
        ValueError: it has none.
    """
    try:
        reference = uris.parse(uri)
    except (ResourceNotFound, InvalidParameter):
        raise ValueError("its URI cannot be used") from None
    if reference.scheme != "file" or reference.query:
        raise ValueError("its URI does not name a file")
    if reference.authority:
        raise ValueError("it is on another machine")
    return pathlib.Path(("" if os.name == "nt" else "/") + "/".join(reference.path) + "/")


def folder_mounts(manifest: Manifest, folders: Sequence[OfferedFolder]) -> ClientFolderMounts:
    """Return a mount for each allowed folder. Blocks on the file system."""
    refused = [_refusal(folder, folder.problem) for folder in folders if folder.problem]
    chosen: dict[pathlib.Path, tuple[OfferedFolder, MountSpec]] = {}
    for folder in folders:
        if folder.path is None or folder.path in chosen:
            continue  # a duplicate
        spec = _allowing(manifest.client_roots, folder.path)
        if spec is None:
            refused.append(_refusal(folder, "it is outside the folders in 'allow'"))
        else:
            chosen[folder.path] = folder, spec
    names = {spec.name for spec in (*manifest.mounts, *manifest.client_roots)}
    bases = {spec.base for spec in manifest.mounts}
    served: list[MountSpec] = []
    audit = manifest.audit
    for path, (folder, spec) in chosen.items():
        if isinstance(audit, AuditFileOptions) and _holds(path, audit.file):
            refused.append(_refusal(folder, "it has the record of reads"))
        elif any(parent in chosen for parent in path.parents):
            refused.append(_refusal(folder, "it is inside another folder, and served there"))
        else:
            served.append(_mount(spec, folder.title, path, names, bases))
    return ClientFolderMounts(tuple(served), tuple(refused))


def _holds(folder: pathlib.Path, file: pathlib.Path) -> bool:
    return pathlib.Path(os.path.realpath(file.absolute().parent)).is_relative_to(folder)


def _refusal(folder: OfferedFolder, reason: str) -> str:
    return f"'{printable(folder.title)}': {reason}"


def _allowing(specs: Iterable[MountSpec], path: pathlib.Path) -> MountSpec | None:
    """Return the first client root of the manifest that allows a folder."""
    for spec in specs:
        allowed = spec.client.allow if spec.client is not None else ()
        if not allowed or any(path.is_relative_to(os.path.realpath(each)) for each in allowed):
            return spec
    return None


def _mount(
    spec: MountSpec, title: str, path: pathlib.Path, names: set[str], bases: set[str]
) -> MountSpec:
    """Return the mount of a folder, under a unique name and base URI."""
    name = sources.unused_name(
        sources.name_from_title(title),
        lambda each: each in names or f"file:///{each}/" in bases,
    )
    names.add(name)
    return msgspec.structs.replace(
        spec,
        name=name,
        base=f"file:///{name}/",
        title=title if title != name else None,
        options={**spec.options, "path": str(path)},
        client=None,
    )
