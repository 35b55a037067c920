"""The records of a JSON feed, one document each: an example of a provider made from a function.

    providers:
      issues:
        use: plugins/feed.py
        uri: issues://acme/
        url: https://acme.example/issues.json    # or `file: issues.jsonl`, beside the manifest
        key: number                              # its value names the document
        group: state                             # its value names the collection
        title_field: subject

A feed is a JSON array of objects, an object that holds one, or JSON Lines. It is loaded again when
it is half a minute old; while that fails, the last records are served. Of several records with one
name, the last one counts.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from resource_server.provider import MountUnavailable
from resource_server.provider.simple import Document, documents

_MAX_BYTES = 64 * 1024**2
_TIMEOUT_S = 10


@documents(refresh=30)
def feed(
    file: FilePath | None = None,
    url: str = "",
    key: str = "id",
    group: str = "",
    title_field: str = "title",
) -> Mapping[str, Document]:
    """Records of a feed."""
    found: dict[str, Document] = {}
    for number, record in enumerate(_records(_load(file, url)), start=1):
        name = _segment(record.get(key, number))
        path = f"{_segment(record[group])}/{name}.json" if group in record else f"{name}.json"
        title = record.get(title_field)
        found[path] = Document(content=record, title=title if isinstance(title, str) else None)
    return found


def _load(file: FilePath | None, url: str) -> bytes:
    """Return the feed, from one of two places."""
    if (file is None) == (url == ""):
        raise MountUnavailable("give either a file or a url")
    try:
        if file is not None:
            with file.open("rb") as stream:
                data = stream.read(_MAX_BYTES + 1)
        else:
            data = _fetch(url)
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise MountUnavailable(f"the feed cannot be loaded: status {error.code}") from error
    except (OSError, ValueError) as error:
        # The text of an error may have the URL, and that a password.
        problem = type(error).__name__
        raise MountUnavailable(f"the feed cannot be loaded: {problem}") from error
    if len(data) > _MAX_BYTES:
        raise MountUnavailable(f"the feed has more than {_MAX_BYTES} bytes")
    return data


def _fetch(url: str) -> bytes:
    if urlsplit(url).scheme not in ("http", "https"):
        raise MountUnavailable("the url of a feed begins with http:// or https://")
    # Redirects are followed to HTTP only.
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:  # noqa: S310
        data: bytes = response.read(_MAX_BYTES + 1)
        return data


def _records(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of JSON or of JSON Lines."""
    try:
        whole = msgspec.json.decode(data)
    except msgspec.DecodeError:
        whole = _lines(data)
    if isinstance(whole, dict):
        members = cast("dict[str, object]", whole).values()
        arrays: list[object] = [each for each in members if isinstance(each, list)]
        whole = arrays[0] if len(arrays) == 1 else [cast("object", whole)]
    if not isinstance(whole, list):
        raise MountUnavailable("the feed is no array of objects")
    for record in cast("list[Any]", whole):
        if not isinstance(record, dict):
            raise MountUnavailable(f"a record of the feed is no object: {type(record).__name__}")
        yield cast("dict[str, Any]", record)


def _lines(data: bytes) -> list[Any]:
    try:
        return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise MountUnavailable("the feed is neither JSON nor JSON Lines") from error


def _segment(value: object) -> str:
    """Return a value as a segment of a path, which has no slash and is no `..`."""
    text = re.sub(r"[/\0]", "-", str(value))[:200]
    return text if text.strip(".") else f"_{text}"
