"""The container image, whose steps run here without Docker: its files, user, command and health."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.packaging.conftest import run, served_text
from tests.packaging.facts import ROOT

pytestmark = pytest.mark.deep

READ_ONLY = 'mount --bind / / && mount -o remount,bind,ro / && exec setpriv "$@"'
"""Makes the file system read-only for one command."""
UNPRIVILEGED = (
    *("--reuid", "10001", "--regid", "10001", "--clear-groups"),
    # The folders of tests are closed to other users.
    *("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search"),
    *("--bounding-set", "-all,+dac_read_search"),
)


class Image(NamedTuple):
    """The image, below a folder of this machine."""

    folder: Path
    entry_point: list[str]
    command: list[str]
    health: list[str]

    def program(self, *arguments: str) -> list[str]:
        """Return the command of a container, as an unprivileged user where nothing is writable."""
        start = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", *UNPRIVILEGED]
        name, *rest = self.entry_point
        return [*start, str(self.folder / "opt/venv/bin" / name), *rest, *arguments]

    def is_healthy(self, process: int, port: int) -> bool:
        """Return whether the health check finds a process healthy, at a port."""
        name, *arguments = self.health
        replaced = [
            each.replace("/proc/1/", f"/proc/{process}/").replace(":8000/", f":{port}/")
            for each in arguments
        ]
        program = self.folder / "opt/venv/bin" / name
        return (
            subprocess.run([program, *replaced], capture_output=True, check=False).returncode == 0
        )


def instructions() -> list[tuple[str, str]]:
    """Return each instruction of the Dockerfile with its text, on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    joined = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in joined if line.strip()]


def build_context(folder: Path) -> None:
    """Copy what `.dockerignore` leaves of the repository."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    patterns = [each for each in lines if not each.startswith("#")]
    assert patterns[0] == "*"
    folder.mkdir()
    for file in ROOT.iterdir():
        if not any(fnmatch(file.name, each[1:]) for each in patterns if each.startswith("!")):
            continue
        if file.is_dir():
            shutil.copytree(file, folder / file.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(file, folder)


@pytest.fixture(scope="module")
def image(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, built step by step."""
    tmp = tmp_path_factory.mktemp("image")
    build_context(tmp / "context")
    work = tmp
    last: dict[str, str] = {}
    for name, text in instructions():
        last[name] = text
        match name:
            case "WORKDIR":
                work = tmp / text.lstrip("/")
                work.mkdir(parents=True, exist_ok=True)
            case "COPY" if not text.startswith("--from"):
                *sources, target = text.split()
                for source in sources:
                    copy(tmp / "context" / source, work / target)
            case "COPY":
                # Stages share a folder here, since a virtual environment cannot move.
                assert text.split()[1:] in (["/uv", "/usr/local/bin/"], ["/opt/venv", "/opt/venv"])
            case "RUN":
                step(text, uv, tmp, work)
            case _:
                pass
    return Image(
        tmp,
        json.loads(last["ENTRYPOINT"]),
        json.loads(last["CMD"]),
        json.loads(last["HEALTHCHECK"].partition("CMD")[2]),
    )


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def step(text: str, uv: str, root: Path, work: Path) -> None:
    folders = (Path(uv).parent, Path(sys.executable).parent, os.environ["PATH"])
    path = os.pathsep.join(map(str, folders))
    run(["env", f"PATH={path}", "sh", "-ec", text.replace("/opt/", f"{root}/opt/")], cwd=work)


@pytest.fixture(scope="module")
def contained(image: Image) -> Image:
    """The image where this machine can run it as a container does."""
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        pytest.skip("not installed: unshare and setpriv")
    probe = [*image.program()[:-1], "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to make the file system read-only for one process")
    return image


@contextmanager
def started(command: list[str]) -> Generator[tuple[int, int]]:
    """Yield the process of a server over HTTP, and its port."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r":(\d+)/mcp", line)
        assert found is not None, line
        yield process.pid, int(found[1])
        process.terminate()


def test_the_image_runs_as_no_user_of_the_host() -> None:
    [user] = [text for name, text in instructions() if name == "USER"]
    assert re.fullmatch(r"[1-9]\d{4}:[1-9]\d{4}", user)


def test_a_container_serves_the_mounted_folder_over_stdio(contained: Image, folder: Path) -> None:
    [serve, data] = contained.command
    assert data == "/data"
    command = contained.program(serve, str(folder))
    assert served_text(command, "hello.txt") == "hello"


def test_a_container_cannot_write(contained: Image, folder: Path) -> None:
    [*start, _] = contained.program()
    file = folder / "written"
    done = subprocess.run([*start, "touch", file], capture_output=True, check=False)
    assert done.returncode != 0
    assert not file.exists()


def test_the_health_check_tells_a_server_that_answers(contained: Image, folder: Path) -> None:
    command = contained.program("serve", str(folder), "--http", "127.0.0.1:0")
    with started(command) as (process, port):
        assert contained.is_healthy(process, port)
        assert not contained.is_healthy(process, 9)  # no server listens there


def test_the_health_check_accepts_a_server_over_stdio(image: Image, folder: Path) -> None:
    server = image.folder / "opt/venv/bin/resource-server"
    with subprocess.Popen([server, "serve", folder], stdin=subprocess.PIPE) as process:
        assert image.is_healthy(process.pid, 9)
        process.communicate()
