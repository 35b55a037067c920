"""Starts the TypeScript clients; `npm install --prefix tests/clients` brings them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

NEEDS = pytest.mark.skipif(
    shutil.which("node") is None or not (HERE / "node_modules/@modelcontextprotocol").is_dir(),
    reason="not installed: Node, and npm install --no-package-lock --prefix tests/clients",
)
"""Of tests that are skipped without them."""


def run(script: str, asked: dict[str, Any]) -> Any:
    """Run a script with what it is to ask; return what it has seen."""
    command = ["node", str(HERE / script), json.dumps(asked)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=50, check=True)
    return json.loads(done.stdout)
