"""Table of platforms without a compiler: `python -m tests.packaging.wheels` asks the index anew.

uv resolves the core and each extra for every platform, from wheels alone.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator

from tests import reference
from tests.packaging.facts import ROOT

SECTION = "wheels"
PAGE = ROOT / "docs/operation.md"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux arm64": "aarch64-manylinux_2_28",
    "Alpine x86-64": "x86_64-unknown-linux-musl",
    "Alpine arm64": "aarch64-unknown-linux-musl",
    "macOS arm64": "aarch64-apple-darwin",
    "macOS x86-64": "x86_64-apple-darwin",
}
"""uv's name of each platform."""
_DEVELOPMENT = ("test", "docs")
_CULPRIT = re.compile(r"wheels are required for `([^`]+)`")


def extras() -> list[str]:
    """Return the extras that a server may need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name not in _DEVELOPMENT]


def refusal(extra: str, platform: str, python: str) -> str | None:
    """Return the package without a wheel, or None where nothing needs a compiler.

    Raises:
        SystemExit: the index cannot be asked.
    """
    command = ["uv", "pip", "compile", "-q", "pyproject.toml", "--only-binary", ":all:"]
    command += ["--python-platform", PLATFORMS[platform], "--python-version", python]
    command += ["--extra", extra] if extra else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    text = " ".join(done.stderr.split())
    if "wheels" not in text:
        raise SystemExit(done.stderr)
    found = _CULPRIT.search(text.lower())
    return found[1] if found else "one of them"


def cell(extra: str, platform: str) -> str:
    """Return the versions of Python that need no compiler, and the packages that others need."""
    found = {python: refusal(extra, platform, python) for python in PYTHONS}
    missing = sorted({name for name in found.values() if name})
    if not missing:
        return "yes"
    complete = [python for python in PYTHONS if not found[python]]
    names = ", ".join(f"`{name}`" for name in missing)
    return f"{', '.join(complete) or 'no'} (without a wheel: {names})"


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| | {' | '.join(PLATFORMS)} |"
    yield f"| --- |{' --- |' * len(PLATFORMS)}"
    for extra in ("", *extras()):
        cells = [cell(extra, platform) for platform in PLATFORMS]
        yield f"| {f'`{extra}`' if extra else 'the server itself'} | {' | '.join(cells)} |"


if __name__ == "__main__":
    reference.write(SECTION, PAGE, "\n".join([*table(), ""]))
