"""The command that adds packages, for each way to install this package."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from resource_server.runtime import installation

PIP = f"{shlex.quote(sys.executable)} -m pip install"
UV = f"uv pip install --python {shlex.quote(sys.executable)}"
VCS = '{"url": "https://x.example/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'
HTTP = {"uvicorn": "uvicorn"}
CLONE = Path(__file__).parents[2]


def folder_origin(folder: Path, *, editable: bool) -> str:
    return f'{{"url": "{folder.as_uri()}", "dir_info": {{"editable": {str(editable).lower()}}}}}'


def installed(prefix: Path, installer: str, origin: str | None = None) -> Path:
    """Record an installation in an environment as installers do."""
    info = prefix / "lib" / "python3.11" / "site-packages" / "resource_server-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: resource-server\nVersion: 1.0\n"
        "Requires-Dist: uvicorn<0.60,>=0.45; extra == 'http'\n"
    )
    (info / "INSTALLER").write_text(f"{installer}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(origin)
    return prefix


def command(prefix: Path) -> str:
    return installation.detect(prefix).extra_command("http", HTTP)


WAYS = {
    "pip": ("pip", "venv", None, PIP, PIP),
    "uv pip": ("uv", "venv", None, UV, UV),
    "uv tool": ("uv", "tool", "uv-receipt.toml", "uv tool install", UV),
    "pipx": (
        "pip",
        "p",
        "pipx_metadata.json",
        "pipx install --force",
        "pipx inject resource-server",
    ),
    "uvx": ("uv", "archive-v0/x", None, "uvx --from", UV),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_command_follows_the_way_and_the_origin_of_the_installation(
    tmp_path: Path, way: str
) -> None:
    installer, folder, marker, begin, alone = WAYS[way]
    source = tmp_path / "a b"
    source.mkdir()
    end = " resource-server" if way == "uvx" else ""
    for number, (origin, wanted) in enumerate(
        (
            (None, "'resource-server[http]'"),
            (VCS, "'resource-server[http] @ git+https://x.example/r@abc'"),
            (folder_origin(source, editable=True), f"-e '{source}[http]'"),
            (
                folder_origin(source, editable=False),
                f"'resource-server[http] @ {source.as_uri()}'",
            ),
        )
    ):
        prefix = installed(tmp_path / str(number) / folder, installer, origin)
        if marker is not None:
            (prefix / marker).write_text("")
        assert installation.detect(prefix).way == way
        assert command(prefix) == f"{begin} {wanted}{end}"
    source.rmdir()
    prefix = tmp_path / "3" / folder
    assert command(prefix) == f"{alone} 'uvicorn<0.60,>=0.45'"
    assert installation.detect(prefix).origin == f"{source}, which is gone"


@pytest.mark.parametrize(
    ("packages", "extras"),
    [
        ((), "http,test"),
        (("asyncmy",), "http,mysql,test"),
        (("pyjwt",), "http,test"),
    ],
)
def test_extras_that_are_there_stay(tmp_path: Path, packages: tuple[str, ...], extras: str) -> None:
    prefix = installed(tmp_path, "uv")
    (prefix / "uv-receipt.toml").write_text("")
    folder = next(prefix.glob("lib/*/site-packages"))
    with next(folder.glob("*.dist-info/METADATA")).open("a") as metadata:
        for needed, of in (
            ("asyncmy<0.3,>=0.2.10", "mysql"),
            ("pyjwt[crypto]>=2.13", "auth"),
            ("another", "auth"),
            ("pytest", "test"),
        ):
            metadata.write(f"Requires-Dist: {needed}; extra == '{of}'\n")
    for package in (*packages, "pytest"):
        info = folder / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    assert command(prefix) == f"uv tool install 'resource-server[{extras}]'"


def test_packages_that_uv_added_to_the_tool_stay(tmp_path: Path) -> None:
    prefix = installed(tmp_path, "uv")
    (prefix / "uv-receipt.toml").write_text(
        "[tool]\nrequirements = [{ name = 'resource-server' }, "
        "{ name = 'notes', specifier = '>=2' }, { name = 'own', directory = '/a b' }]\n"
    )
    kept = "uv tool install --with 'notes>=2' --with '/a b'"
    assert command(prefix) == f"{kept} 'resource-server[http]'"
    added = installation.detect(prefix).package_command("PACKAGE")
    assert added == f"{kept} --with PACKAGE resource-server"


@pytest.mark.parametrize(
    ("way", "added"),
    [
        ("pip", f"{PIP} PACKAGE"),
        ("uv pip", f"{UV} PACKAGE"),
        ("pipx", "pipx inject resource-server PACKAGE"),
        ("uvx", "uvx --with PACKAGE --from resource-server resource-server"),
    ],
)
def test_any_package_is_added_in_the_same_way(tmp_path: Path, way: str, added: str) -> None:
    installer, folder, marker, *_ = WAYS[way]
    prefix = installed(tmp_path / folder, installer)
    if marker is not None:
        (prefix / marker).write_text("")
    assert installation.detect(prefix).package_command("PACKAGE") == added


def test_a_copy_that_is_not_installed_is_completed_from_its_folder(tmp_path: Path) -> None:
    assert command(tmp_path) == f"{PIP} -e {shlex.quote(f'{CLONE}[http]')}"
    assert installation.detect(tmp_path).origin == f"the folder {CLONE}, not installed"


def test_the_origin_keeps_the_login_of_its_url(tmp_path: Path) -> None:
    origin = '{"url": "https://me:hunter2@x.example/r", "vcs_info": {"vcs": "git"}}'
    assert installation.detect(installed(tmp_path, "pip", origin)).origin == "x.example/r"


def test_uvx_runs_again_what_it_runs_now(tmp_path: Path) -> None:
    source = tmp_path / "a b"
    source.mkdir()
    for folder, origin, requirement in (
        ("archive-v0/a", None, "resource-server"),
        ("archive-v0/b", VCS, "resource-server @ git+https://x.example/r@abc"),
        ("archive-v0/c", folder_origin(source, editable=True), str(source)),
        ("venv", None, None),
    ):
        found = installation.detect(installed(tmp_path / folder, "uv", origin))
        assert found.uvx_requirement() == requirement
        # Others have no folder of this machine, and a repository may need a login.
        shared = ("uvx", "--from", "resource-server") if folder == "archive-v0/a" else ()
        assert found.program(is_shared=True) == (*shared, "resource-server")
