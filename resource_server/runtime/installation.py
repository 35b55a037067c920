"""The installation of this program: its installer and origin, and commands that add packages."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

if TYPE_CHECKING:
    from importlib.metadata import Distribution

Way: TypeAlias = Literal["pip", "pipx", "uv pip", "uv tool", "uvx"]

_PACKAGE = "resource-server"
_UV_CACHE = ("archive-v", "environments-v", "builds-v")
"""Folders of uv's cache, where `uvx` keeps environments that nothing can be installed into."""
_REQUIREMENT = re.compile(r"""(([\w.-]+).*?)\s*;.*\bextra == ['"](\w+)['"]""")
"""A package of an extra, in the metadata of this one."""


@dataclass(frozen=True, slots=True)
class Installation:
    """How this program came into the environment in `prefix`, and how packages are added to it."""

    prefix: Path
    found: Distribution | None
    """The metadata; None for a copy that is not installed."""

    @property
    def way(self) -> Way:
        """The installer."""
        if (self.prefix / "uv-receipt.toml").is_file():
            return "uv tool"
        if (self.prefix / "pipx_metadata.json").is_file():
            return "pipx"
        if any(part.startswith(_UV_CACHE) for part in self.prefix.parts):
            return "uvx"
        installer = "" if self.found is None else (self.found.read_text("INSTALLER") or "").strip()
        has_pip = importlib.util.find_spec("pip") is not None
        return "uv pip" if installer == "uv" or not has_pip else "pip"

    @property
    def origin(self) -> str:
        """Where the package came from, in words."""
        origin = self._direct_url()
        place = None if origin is None else _local_path(origin)
        if origin is None:
            folder = _clone() if self.found is None else None
            return "a package index" if folder is None else f"the folder {folder}, not installed"
        if place is None:
            # A URL may have a login.
            return f"{origin['url'].rpartition('@')[2].removeprefix('https://')}"
        editable = ", editable" if origin.get("dir_info", {}).get("editable") else ""
        return f"{place}{editable}{'' if place.exists() else ', which is gone'}"

    def extra_command(self, extra: str, packages: Collection[str]) -> str:
        """Return the command that adds an extra, whose packages have these names.

        It names the extras that are there, too: some installers make the environment anew.
        """
        wanted = self._requirement((extra, *self.complete_extras()))
        if wanted is None:
            return self._packages_command(self._requirements(extra) or packages)
        match self.way:
            case "uv tool":
                return " ".join(("uv tool install", *self._injected(), wanted))
            case "pipx":
                return f"pipx install --force {wanted}"
            case "uvx":
                return f"uvx --from {wanted} {_PACKAGE}"
            case _:
                return f"{self._installer()} {wanted}"

    def package_command(self, package: str) -> str:
        """Return the command that adds any other package."""
        wanted = self._requirement(self.complete_extras())
        if wanted is not None and self.way == "uv tool":
            return " ".join(("uv tool install", *self._injected(), f"--with {package}", wanted))
        if wanted is not None and self.way == "uvx":
            return f"uvx --with {package} --from {wanted} {_PACKAGE}"
        return self._packages_command([package])

    def uvx_requirement(self) -> str | None:
        """Return what `uvx --from` takes to run this again; None if uvx does not run it."""
        wanted = self._requirement(self.complete_extras()) if self.way == "uvx" else None
        return None if wanted is None else shlex.split(wanted)[-1]

    def complete_extras(self) -> Collection[str]:
        """Return the extras whose packages are all installed."""
        packages: dict[str, list[str]] = {}
        for match in map(_REQUIREMENT.match, self._requires()):
            if match is not None:
                packages.setdefault(match[3], []).append(match[2])
        return [
            extra
            for extra, needed in packages.items()
            if all(_distribution(package, self.prefix) is not None for package in needed)
        ]

    def _packages_command(self, packages: Collection[str]) -> str:
        wanted = shlex.join(packages)
        if self.way == "pipx":
            return f"pipx inject {_PACKAGE} {wanted}"
        return f"{self._installer()} {wanted}"

    def _installer(self) -> str:
        python = shlex.quote(sys.executable)
        if self.way == "pip":
            return f"{python} -m pip install"
        return f"uv pip install --python {python}"

    def _requires(self) -> Sequence[str]:
        return () if self.found is None else self.found.requires or ()

    def _requirements(self, extra: str) -> Collection[str]:
        """Return the packages of an extra, with the versions that this one takes."""
        matches = map(_REQUIREMENT.match, self._requires())
        return [match[1] for match in matches if match is not None and match[3] == extra]

    def _requirement(self, extras: Collection[str]) -> str | None:
        """Return this package as an argument of an installer; None if its origin is gone.

        The origin is an index, a folder, a file or a repository.
        """
        suffix = f"[{','.join(sorted(set(extras)))}]" if extras else ""
        origin = self._direct_url()
        if origin is None:
            folder = _clone() if self.found is None else None
            if folder is not None:
                return f"-e {shlex.quote(f'{folder}{suffix}')}"
            return None if self.found is None else shlex.quote(f"{_PACKAGE}{suffix}")
        place = _local_path(origin)
        if place is not None and not place.exists():
            return None
        if origin.get("dir_info", {}).get("editable"):
            return f"-e {shlex.quote(f'{place}{suffix}')}"
        url = str(origin["url"])
        if vcs := origin.get("vcs_info"):
            url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
        return shlex.quote(f"{_PACKAGE}{suffix} @ {url}")

    def program(self, *, is_shared: bool = False) -> tuple[str, ...]:
        """Return the command that starts the running program, absolute, as other PATHs differ.

        One that is shared with other machines has no path, and no origin but a package index.
        """
        requirement = self.uvx_requirement()
        if is_shared:
            has_index = requirement is not None and self.found and self._direct_url() is None
            return ("uvx", "--from", str(requirement), _PACKAGE) if has_index else (_PACKAGE,)
        if requirement is not None:
            # The environment of uvx is gone with its cache.
            return (shutil.which("uvx") or "uvx", "--from", requirement, _PACKAGE)
        name = f"{_PACKAGE}.exe" if os.name == "nt" else _PACKAGE
        script = Path(sysconfig.get_path("scripts")) / name
        if script.is_file():
            return (str(script),)
        return (sys.executable, "-m", "resource_server")

    def _direct_url(self) -> dict[str, Any] | None:
        """Return the origin that the installer recorded (PEP 610); None for an index."""
        text = None if self.found is None else self.found.read_text("direct_url.json")
        return None if text is None else msgspec.json.decode(text)

    def _injected(self) -> Sequence[str]:
        """Return options for the packages that `uv tool install --with` added."""
        # Imported here: few processes need it.
        import tomllib

        receipt = tomllib.loads((self.prefix / "uv-receipt.toml").read_text("utf-8"))
        others = [
            each
            for each in receipt.get("tool", {}).get("requirements", ())
            if each.get("name") != _PACKAGE
        ]
        return [
            f"--with {shlex.quote(each.get('directory') or each.get('editable') or _spec(each))}"
            for each in others
        ]


def detect(prefix: Path | None = None) -> Installation:
    """Return the installation in an environment; without `prefix`, the running one."""
    prefix = Path(sys.prefix) if prefix is None else prefix
    return Installation(prefix, _distribution(_PACKAGE, prefix))


def _spec(requirement: dict[str, Any]) -> str:
    return f"{requirement['name']}{requirement.get('specifier', '')}"


def _local_path(origin: dict[str, Any]) -> Path | None:
    parts = urlsplit(str(origin["url"]))
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _clone() -> Path | None:
    """Return the folder of the sources that run."""
    folder = Path(__file__).parents[2]
    return folder if (folder / "pyproject.toml").is_file() else None


def _distribution(package: str, prefix: Path) -> Distribution | None:
    """Return a package as it is installed in an environment; None if it is not."""
    # Imported here: it takes long, and few processes need it.
    from importlib.metadata import distributions

    places = [path for path in sys.path if prefix in (Path(path), *Path(path).parents)]
    places += map(str, prefix.glob("lib/python*/site-packages"))
    return next(iter(distributions(name=package, path=places)), None)
