"""Home folders with the configurations of hosts, and a person at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import ROOT, Outcome, Run

CONFIGURATIONS = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "vscode": ".config/Code/User/mcp.json",
    "cursor": ".cursor/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "goose": ".config/goose/config.yaml",
    "zed": ".config/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "copilot": ".copilot/mcp-config.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
}


def put(home: Path, host: str, text: str | bytes) -> Path:
    file = home / CONFIGURATIONS[host]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def everything(folder: Path) -> dict[str, bytes | str]:
    """Return all files and links below a folder."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else data
        for path in sorted(folder.rglob("*"))
        if (data := path.read_bytes() if path.is_file() else b"folder") or True
    }


def failing(run: Run, home: Path, *arguments: str) -> str:
    """Run a command that must fail and change nothing; return its message."""
    before = everything(home)
    done = run(*arguments)
    assert done.status in (1, 2), done
    assert everything(home) == before
    return done.err.splitlines()[-1].removeprefix("resource-server: ")


def on_terminal(answer: bytes, home: Path, folder: Path, *arguments: str) -> Outcome:
    """Run a command whose questions a person at a terminal answers."""
    person, terminal = pty.openpty()
    try:
        os.write(person, answer)
        done = subprocess.run(
            [sys.executable, "-m", "resource_server", *arguments],
            stdin=terminal,
            capture_output=True,
            cwd=folder,
            env={"HOME": str(home), "PATH": "/nowhere", "PYTHONPATH": str(ROOT)},
            check=False,
            timeout=60,
        )
    finally:
        os.close(person)
        os.close(terminal)
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), done.stdout)
