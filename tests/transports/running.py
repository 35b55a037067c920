"""The real program with any manifest and any options of `serve`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

from tests.transports.program import ROOT, Program

_PROGRAM = """
from resource_server.cli import main
from resource_server.transports.http import listen
{patch}
main()
"""
PHONE = Path(__file__).with_name("phone.py")


@contextlib.contextmanager
def running(
    manifest: Path,
    *options: str,
    http: str = "127.0.0.1:0",
    patch: str = "",
    env: Mapping[str, str] | None = None,
) -> Generator[Program]:
    """Run `resource-server serve MANIFEST --http …`, after a line of Python.

    `env` is added to the environment.
    """
    code = _PROGRAM.format(patch=patch)
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", manifest, "--http", http, *options],
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        text=True,
    )
    try:
        yield Program(process, manifest.parent / "project")
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def project(place: Path, http: str = "{}", more: str = "", provider: Path = PHONE) -> Path:
    """Write a manifest with a folder and a phone, or another provider; `more` is YAML below it."""
    (place / "project").mkdir()
    (place / "project" / "read me.md").write_text("# Hello\n")
    manifest = place / "mcp-resources.yaml"
    manifest.write_text(
        f"roots: {{project: {{path: project}}}}\n"
        f'providers: {{phone: {{use: {provider}, uri: "test://phone/"}}}}\n'
        f"http: {http}\n{more}"
    )
    return manifest
