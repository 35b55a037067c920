"""Starts the TypeScript clients; `npm install --prefix tests/clients` brings them."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import ROOT, TRANSPORTS

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"


def needs(package: str) -> pytest.MarkDecorator:
    """Return the mark of tests that are skipped without Node and this package."""
    return pytest.mark.skipif(
        shutil.which("node") is None or not (MODULES / package).is_dir(),
        reason="not installed: Node, and npm install --no-package-lock --prefix tests/clients",
    )


NEEDS = needs("@modelcontextprotocol")
"""Of tests that are skipped without them."""


def cases(*, since: str) -> list[tuple[str, str, str]]:
    """Return each client, transport and revision to try: of the older client the first and last."""
    return [
        *itertools.product(("v1",), TRANSPORTS, (since, "2025-11-25")),
        *itertools.product(("v2",), TRANSPORTS, ("2025-11-25", "2026-07-28")),
    ]


def run(script: str, asked: dict[str, Any]) -> Any:
    """Run a script with what it is to ask; return what it has seen."""
    command = ["node", str(HERE / script), json.dumps({"cwd": str(ROOT), **asked})]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=50, check=True)
    return json.loads(done.stdout)
