"""The command that installs a missing extra, for each way to install this package."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from resource_server.runtime.extras import MissingExtra, install_command, needed, uvx_requirement

PIP = f"{shlex.quote(sys.executable)} -m pip install"
UV = f"uv pip install --python {shlex.quote(sys.executable)}"
EDITABLE = '{"url": "file:///a%20b/src", "dir_info": {"editable": true}}'
VCS = '{"url": "https://x.example/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'


def installed(prefix: Path, installer: str, origin: str | None) -> Path:
    """Record an installation in an environment as installers do."""
    info = prefix / "lib" / "python3.11" / "site-packages" / "resource_server-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: resource-server\nVersion: 1.0\n")
    (info / "INSTALLER").write_text(f"{installer}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(origin)
    return prefix


@pytest.mark.parametrize(
    ("way", "command"),
    [
        (("pip", "venv", None, None), f"{PIP} 'resource-server[http]'"),
        (("pip", "venv", None, EDITABLE), f"{PIP} -e '/a b/src[http]'"),
        (
            ("pip", "venv", None, VCS),
            f"{PIP} 'resource-server[http] @ git+https://x.example/r@abc'",
        ),
        (("uv", "venv", None, None), f"{UV} 'resource-server[http]'"),
        (("uv", "venv", None, EDITABLE), f"{UV} -e '/a b/src[http]'"),
        (("uv", "tool", "uv-receipt.toml", None), "uv tool install 'resource-server[http]'"),
        (("uv", "archive-v0/x", None, None), "uvx --from 'resource-server[http]' resource-server"),
        (("pip", "p", "pipx_metadata.json", None), "pipx install --force 'resource-server[http]'"),
    ],
)
def test_the_command_follows_the_way_of_installation(
    tmp_path: Path, way: tuple[str, str, str | None, str | None], command: str
) -> None:
    installer, folder, marker, origin = way
    prefix = installed(tmp_path / folder, installer, origin)
    if marker is not None:
        (prefix / marker).write_text("")
    assert install_command("http", prefix) == command


@pytest.mark.parametrize(
    ("packages", "extras"),
    [
        ((), "http,test"),
        (("asyncmy",), "http,mysql,test"),
        (("pyjwt",), "http,test"),
        (("uvicorn",), "http,test"),
    ],
)
def test_extras_that_are_there_stay(tmp_path: Path, packages: tuple[str, ...], extras: str) -> None:
    prefix = installed(tmp_path, "uv", None)
    (prefix / "uv-receipt.toml").write_text("")
    folder = next(prefix.glob("lib/*/site-packages"))
    with next(folder.glob("*.dist-info/METADATA")).open("a") as metadata:
        for needed, of in (
            ("asyncmy<0.3,>=0.2.10", "mysql"),
            ("pyjwt[crypto]>=2.13", "auth"),
            ("another", "auth"),
            ("uvicorn>=0.45", "http"),
            ("pytest", "test"),
        ):
            metadata.write(f"Requires-Dist: {needed}; extra == '{of}'\n")
    for package in (*packages, "pytest"):
        info = folder / f"{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    assert install_command("http", prefix) == f"uv tool install 'resource-server[{extras}]'"


def test_a_copy_that_is_not_installed_is_completed_from_the_index(tmp_path: Path) -> None:
    assert install_command("http", tmp_path) == f"{PIP} 'resource-server[http]'"


def test_only_the_packages_of_others_count_as_missing() -> None:
    with pytest.raises(MissingExtra, match="this needs more packages"), needed("http", "this"):
        raise ModuleNotFoundError("no", name="uvicorn.config")
    with pytest.raises(ModuleNotFoundError), needed("http", "this"):
        raise ModuleNotFoundError("no", name="resource_server.misspelt")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "http", "said"),
    [
        ("uvicorn", "{}", "--http needs more packages; install them: "),
        (
            "jwt",
            "{auth: {issuer: 'https://i.example', audience: a}}",
            "http.auth.issuer needs more packages; install them: ",
        ),
    ],
)
def test_a_missing_extra_is_one_line_with_the_status_of_a_configuration_error(
    tmp_path: Path, package: str, http: str, said: str
) -> None:
    (tmp_path / "docs").mkdir()
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text(f"roots: {{docs: {{path: docs}}}}\nhttp: {http}\n")
    code = (
        f"import sys; sys.modules[{package!r}] = None; from resource_server.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "serve", str(manifest), "--http", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"resource-server: {said}")


def test_uvx_runs_again_what_it_runs_now(tmp_path: Path) -> None:
    for folder, origin, requirement in (
        ("archive-v0/a", None, "resource-server"),
        ("archive-v0/b", VCS, "resource-server @ git+https://x.example/r@abc"),
        ("archive-v0/c", EDITABLE, "/a b/src"),
        ("venv", None, None),
    ):
        assert uvx_requirement(installed(tmp_path / folder, "uv", origin)) == requirement
