"""Facts found by this server and by markitdown: `python -m tests.conversion.comparison`.

The variable `BENCHMARK_MARKITDOWN` names the Python of an environment that has markitdown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from resource_server import media_types
from resource_server.conversion import registry
from resource_server.conversion.pool import ConverterPool
from resource_server.errors import ConversionError
from resource_server.provider.conversion import ConversionRequest
from tests.conversion.samples import SAMPLES

_PEER = """
import json, sys, markitdown
converter, found = markitdown.MarkItDown(), {}
for path in sys.argv[1:]:
    try:
        found[path] = converter.convert(path).text_content
    except Exception as error:
        found[path] = f"[{type(error).__name__}]"
print(json.dumps(found))
"""


def converted(pool: ConverterPool, path: Path) -> str:
    """Return a document's text, as the server converts it.

    Raises:
        ConversionError: it cannot be converted.
    """
    media_type = media_types.from_name(path.name, ())
    converter = registry.Converters().of(media_type)
    if converter is None:
        raise ConversionError("there is no converter")
    request = ConversionRequest(media_type=media_type or "", format=converter.formats[0].name)
    with path.open("rb") as file:
        parts = pool.convert(converter.reference, file.fileno(), request).parts
    return "\n".join(str(part.data) for part in parts)


def main() -> None:
    """Print the facts that each finds, by document; and each fact that only one finds."""
    python = os.environ.get("BENCHMARK_MARKITDOWN")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / sample.name for sample in SAMPLES]
        for path, sample in zip(paths, SAMPLES, strict=True):
            path.write_bytes(sample.data)
        ours = _ours(paths)
        peer = _peer(python, paths) if python else dict[Path, str]()
    _line("document", "facts", "this server", "markitdown" if peer else "")
    sums = [0, 0, 0]
    differences: list[str] = []
    for path, sample in zip(paths, SAMPLES, strict=True):
        found = [fact for fact in sample.facts if fact.is_in(ours[path])]
        theirs = [fact for fact in sample.facts if peer and fact.is_in(peer[path])]
        counts = [len(sample.facts), len(found), len(theirs)]
        sums = [each + more for each, more in zip(sums, counts, strict=True)]
        _line(sample.name, *map(str, counts))
        for fact in sample.facts:
            if (fact in found) != (fact in theirs) or fact not in found:
                who = "only ours" if fact in found else "theirs" if fact in theirs else "none"
                differences.append(f"{who:<10} {sample.name:<16} {fact}")
    _line("all", *map(str, sums))
    sys.stdout.write("\n" + "\n".join(differences) + "\n")


def _line(name: str, *cells: str) -> None:
    sys.stdout.write(f"{name:<18}" + "".join(f"{cell:>13}" for cell in cells) + "\n")


def _ours(paths: list[Path]) -> Mapping[Path, str]:
    pool = ConverterPool()
    found: dict[Path, str] = {}
    try:
        for path in paths:
            try:
                found[path] = converted(pool, path)
            except ConversionError as error:
                found[path] = ""
                sys.stdout.write(f"{path.name}: {error}\n")
    finally:
        pool.close()
    return found


def _peer(python: str, paths: list[Path]) -> Mapping[Path, str]:
    command = [python, "-c", _PEER, *map(str, paths)]
    ran = subprocess.run(command, capture_output=True, check=True)
    return {Path(path): text for path, text in json.loads(ran.stdout).items()}


if __name__ == "__main__":
    main()
