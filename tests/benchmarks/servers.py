"""The commands that start what is compared: this server, the floor and the peers."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tests.benchmarks.client import ROOT

HERE = Path(__file__).parent

OURS = "resource-server"
FLOOR = "bare json loop"
SDK = "mcp SDK"
FAST_SDK = "mcp SDK, on our web server"
"""By httptools, and uvloop where it is installed; by itself it comes with neither."""
EVERYTHING = "server-everything"
FILESYSTEM = "server-filesystem"
BARE_INOTIFY = "bare inotify loop"
WATCHFILES = "watchfiles"
DBHUB = "dbhub"
READ_ONLY_DBHUB = "dbhub, read-only"
MARKITDOWN = "markitdown"
DATASETTE = "datasette"

_READ_ONLY = """[[sources]]
id = "shop"
dsn = "{dsn}"

[[tools]]
name = "execute_sql"
source = "shop"
readonly = true
"""

EVERYTHING_TEXT = "demo://resource/dynamic/text/1"
"""One line that server-everything makes in memory: it reads no file for it."""


def ours(source: Path) -> list[str]:
    """Return the command that serves a folder or manifest with this server."""
    return [sys.executable, "-m", "resource_server", "serve", str(source)]


def ours_unlimited(source: Path) -> list[str]:
    """Return the command that serves a manifest without the rate limit of SQL of callers."""
    limit = "resource_server.providers.database.queries.callers.caller_sql._BURST"
    return [
        *(sys.executable, "-c"),
        "import resource_server.providers.database.queries.callers.caller_sql;"
        f"{limit} = 10**9; from resource_server.cli import main; main({['serve', str(source)]!r})",
    ]


def floor(folder: Path) -> list[str]:
    """Return the command of the bare loop."""
    return [sys.executable, str(HERE / "floor.py"), str(folder)]


def sdk(folder: Path) -> list[str]:
    """Return the command of the official SDK's server."""
    return [sys.executable, str(HERE / "sdk_server.py"), str(folder)]


def ours_http(source: Path, port: int) -> list[str]:
    """Return the command that serves a folder over HTTP with this server."""
    return [*ours(source), "--http", f"127.0.0.1:{port}"]


def sdk_http(folder: Path, port: int) -> list[str]:
    """Return the command of the official SDK's server over HTTP, as it comes."""
    return [*sdk(folder), str(port)]


def fast_sdk_http(folder: Path, port: int) -> list[str]:
    """Return the command of the official SDK's server on the web server that this one has."""
    return [*sdk_http(folder, port), "fast"]


def bare_inotify(folder: Path) -> list[str]:
    """Return the command of the bare loop that prints which files of a folder are written."""
    return [sys.executable, str(HERE / "bare_inotify.py"), str(folder)]


def watchfiles(folder: Path, *, step_ms: int = 50, debounce_ms: int = 1600) -> list[str]:
    """Return the command that prints what watchfiles reports of a folder; as it comes by itself."""
    script = str(HERE / "plain_watchfiles.py")
    return [sys.executable, script, str(folder), str(step_ms), str(debounce_ms)]


def node(name: str, *arguments: str, scope: str = "@modelcontextprotocol") -> list[str] | None:
    """Return the command of an npm peer, or None where it or Node is not installed.

    Looked for in the folder that the variable `BENCHMARK_NODE_MODULES` names, else in
    `tests/clients/node_modules`.
    """
    modules = Path(os.environ.get("BENCHMARK_NODE_MODULES", ROOT / "tests/clients/node_modules"))
    script = modules / scope / name / "dist" / "index.js"
    program = shutil.which("node")
    return [program, str(script), *arguments] if program and script.is_file() else None


def dbhub(url: str, *, config: Path | None = None) -> list[str] | None:
    """Return the command of dbhub for the URL of a database, or None where it is not installed.

    By itself it also writes; a file is written for `config` with which it only reads.
    It needs Node 22.5, which `tests/clients` brings along (the npm package `node`).
    """
    source = urlsplit(url)
    # It wants a colon after the user, and has to be told to do without TLS.
    name, at, host = source.netloc.rpartition("@")
    login = f"{name}{'' if ':' in name else ':'}{at}{host}"
    scheme = {"postgresql": "postgres", "mysql": "mariadb"}.get(source.scheme, source.scheme)
    server = f"{scheme}://{login}{source.path}?sslmode=disable"
    # A file has one slash fewer than with SQLAlchemy.
    dsn = url.replace("////", "///") if scheme == "sqlite" else server
    given = ["--dsn", dsn]
    if config is not None:
        config.write_text(_READ_ONLY.format(dsn=dsn), "utf-8")
        given = ["--config", str(config)]
    command = node(DBHUB, "--transport", "stdio", *given, scope="@bytebase")
    newer = ROOT / "tests/clients/node_modules/node/bin/node"
    return [str(newer), *command[1:]] if command and newer.is_file() else command


def markitdown(documents: Path) -> list[str] | None:
    """Return the command that converts documents with markitdown, or None without it.

    The variable `BENCHMARK_MARKITDOWN` names the Python of an environment that has it.
    """
    python = os.environ.get("BENCHMARK_MARKITDOWN")
    script = str(HERE / "markitdown_loop.py")
    return [python, script, str(documents)] if python else None


def datasette(database: Path, port: int) -> list[str] | None:
    """Return the command of datasette, or None where it is not installed.

    Looked for beside this Python, then on the `PATH`: it needs no place in its environment.
    """
    folders = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    program = shutil.which(DATASETTE, path=folders)
    return [program, "serve", str(database), "--port", str(port)] if program else None
