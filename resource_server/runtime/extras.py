"""Optional dependencies (extras), and the command that adds one to this installation."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import msgspec

from resource_server.errors import MountUnavailable

if TYPE_CHECKING:
    from importlib.metadata import Distribution

Extra: TypeAlias = Literal["auth", "documents", "duckdb", "http", "mysql", "postgres"]

_PACKAGE = "resource-server"
_UV_CACHE = ("archive-v", "environments-v", "builds-v")
"""Folders of uv's cache, where `uvx` keeps environments that nothing can be installed into."""
_REQUIREMENT = re.compile(r"""([\w.-]+).*;.*\bextra == ['"](\w+)['"]""")
"""A package of an extra, in the metadata of this one."""


class MissingExtra(MountUnavailable):
    """A feature needs packages that are not installed; the message has the command for them."""

    def __init__(self, feature: str, extra: Extra) -> None:
        super().__init__(f"{feature} needs more packages; install them: {install_command(extra)}")


@contextmanager
def needed(extra: Extra, feature: str) -> Generator[None]:
    """Turn the failed import of another package into the error for a missing extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
            raise
        raise MissingExtra(feature, extra) from None


def install_command(extra: Extra, prefix: Path | None = None) -> str:
    """Return the command that adds an extra to the installation in `prefix` (the running one).

    It names the extras that are there, too: some installers make the environment anew.
    """
    prefix = Path(sys.prefix) if prefix is None else prefix
    found = _installed(_PACKAGE, prefix)
    extras = {extra} if found is None else {extra, *_complete_extras(found, prefix)}
    wanted = _wanted(found, ",".join(sorted(extras)))
    if (prefix / "uv-receipt.toml").is_file():
        return f"uv tool install {wanted}"
    if (prefix / "pipx_metadata.json").is_file():
        return f"pipx install --force {wanted}"
    installer = "" if found is None else (found.read_text("INSTALLER") or "").strip()
    if installer != "uv":
        return f"{shlex.quote(sys.executable)} -m pip install {wanted}"
    if _is_in_uv_cache(prefix):
        return f"uvx --from {wanted} {_PACKAGE}"
    return f"uv pip install --python {shlex.quote(sys.executable)} {wanted}"


def uvx_requirement(prefix: Path | None = None) -> str | None:
    """Return what `uvx --from` takes to run this again; None if uvx does not run it."""
    prefix = Path(sys.prefix) if prefix is None else prefix
    if not _is_in_uv_cache(prefix):
        return None
    found = _installed(_PACKAGE, prefix)
    extras = () if found is None else sorted(_complete_extras(found, prefix))
    return shlex.split(_wanted(found, ",".join(extras)))[-1].replace("[]", "")


def _is_in_uv_cache(prefix: Path) -> bool:
    return any(part.startswith(_UV_CACHE) for part in prefix.parts)


def _installed(package: str, prefix: Path) -> Distribution | None:
    """Return a package as it is installed in an environment; None if it is not."""
    # Imported here: it takes long, and few processes need it.
    from importlib.metadata import distributions

    places = [path for path in sys.path if prefix in (Path(path), *Path(path).parents)]
    places += map(str, prefix.glob("lib/python*/site-packages"))
    return next(iter(distributions(name=package, path=places)), None)


def _complete_extras(found: Distribution, prefix: Path) -> Collection[str]:
    """Return the extras whose packages are all installed."""
    packages: dict[str, list[str]] = {}
    for match in map(_REQUIREMENT.match, found.requires or ()):
        if match is not None:
            packages.setdefault(match[2], []).append(match[1])
    return {
        extra
        for extra, needed in packages.items()
        if all(_installed(package, prefix) is not None for package in needed)
    }


def _wanted(found: Distribution | None, extras: str) -> str:
    """Return the requirement, from where the package came: an index, a folder or a repository."""
    text = None if found is None else found.read_text("direct_url.json")  # PEP 610
    if text is None:
        return shlex.quote(f"{_PACKAGE}[{extras}]")
    origin: dict[str, Any] = msgspec.json.decode(text)
    url = str(origin["url"])
    if origin.get("dir_info", {}).get("editable"):
        return f"-e {shlex.quote(f'{unquote(urlsplit(url).path)}[{extras}]')}"
    if vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return shlex.quote(f"{_PACKAGE}[{extras}] @ {url}")
