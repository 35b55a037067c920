from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.packaging.facts import ROOT


class Distributions(NamedTuple):
    """What is uploaded to PyPI."""

    sdist: Path
    wheel: Path


@pytest.fixture(scope="session")
def uv() -> str:
    """The program `uv`."""
    found = shutil.which(
        "uv", path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    )
    if found is None:
        pytest.skip("not installed: uv")
    return found


@pytest.fixture(scope="session")
def distributions(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    run([uv, "build", "--quiet", "--out-dir", folder, ROOT])
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Distributions(sdist, wheel)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file, `hello.txt`."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello")
    return folder


def run(command: Sequence[str | Path], *, cwd: Path | None = None, text: str = "") -> str:
    """Run a command outside of this environment, and return its standard output."""
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def served_text(command: Sequence[str | Path], name: str, cwd: Path | None = None) -> str:
    """Return the text of a listed resource, from a command that serves over stdio."""
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    found = _exchange(command, cwd, ("initialize", hello), ("resources/list", {}))
    [uri] = [each["uri"] for each in found["resources"] if each["name"] == name]
    read = ("resources/read", {"uri": uri})
    return _exchange(command, cwd, ("initialize", hello), read)["contents"][0]["text"]


def _exchange(
    command: Sequence[str | Path], cwd: Path | None, *requests: tuple[str, Mapping[str, object]]
) -> dict[str, list[dict[str, str]]]:
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    output = run(command, cwd=cwd, text="".join(f"{each}\n" for each in lines))
    return json.loads(output.splitlines()[-1])["result"]
