"""Optional dependencies (extras), the error for one that is missing, and other packages."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from resource_server.errors import MountUnavailable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Extra: TypeAlias = Literal[
    "auth",
    "charts",
    "documents",
    "duckdb",
    "explorer",
    "fleet",
    "http",
    "mysql",
    "postgres",
    "regex",
    "s3",
]

PACKAGES: Mapping[Extra, Mapping[str, str]] = MappingProxyType(
    {
        "auth": {"pyjwt": "jwt", "cryptography": "cryptography"},
        "charts": {"pillow": "PIL", "vl-convert-python": "vl_convert"},
        "documents": {
            "chardet": "chardet",
            "duckdb": "duckdb",
            "html-to-markdown": "html_to_markdown",
            "nanoarrow": "nanoarrow",
            "pillow": "PIL",
            "pypdfium2": "pypdfium2",
            "python-calamine": "python_calamine",
        },
        "duckdb": {"duckdb": "duckdb", "sqlglot": "sqlglot"},
        "explorer": {
            "jinja2": "jinja2",
            "markdown-it-py": "markdown_it",
            "nh3": "nh3",
            "pygments": "pygments",
            "starlette": "starlette",
        },
        "fleet": {"redis": "redis"},
        "http": {
            "httptools": "httptools",
            "prometheus-client": "prometheus_client",
            "uvicorn": "uvicorn",
        },
        "mysql": {"asyncmy": "asyncmy", "sqlglot": "sqlglot"},
        "postgres": {"asyncpg": "asyncpg", "sqlglot": "sqlglot"},
        "regex": {"google-re2": "re2"},
        "s3": {"botocore": "botocore"},
    }
)
"""The packages of each extra, and the module of each."""

_METADATA = (".dist-info", "egg-info")
"""How the folders end that have the metadata of packages; that of an egg has no dot."""


class MissingExtra(MountUnavailable):
    """A feature needs packages that are not installed; the message has the command for them."""

    def __init__(self, feature: str, extra: Extra) -> None:
        super().__init__(
            f"{feature} needs more packages; install them: {install_command(extra)}",
            told=f"this server lacks packages for it; {operator_hint(extra)}",
            is_temporary=False,
        )


def require_packages(extra: Extra, feature: str) -> None:
    """Find all packages of an extra, without importing them.

    Raises:
        MissingExtra: some are not installed.
    """
    if missing(extra):
        raise MissingExtra(feature, extra)


def missing(extra: Extra) -> Sequence[str]:
    """Return the packages of an extra that are not installed."""
    return [package for package, module in PACKAGES[extra].items() if not is_installed(module)]


def is_installed(module: str) -> bool:
    """Return whether a module is found, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def entry_points(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group. Blocks."""
    if not _is_mentioned(group.encode()):
        return ()
    # Imported here: this takes twenty times as long as finding out that no package has any.
    from importlib.metadata import entry_points

    return [*entry_points(group=group)]


def _is_mentioned(group: bytes) -> bool:
    """Return whether an installed package mentions a group of entry points, or may do so unseen."""
    others = [each for each in sys.meta_path if each is not importlib.machinery.PathFinder]
    if any(hasattr(each, "find_distributions") for each in others):
        return True
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as found:
                paths = [e.path for e in found if e.name.lower().endswith(_METADATA)]
        except FileNotFoundError:
            continue
        except OSError:
            return True  # an archive
        for path in paths:
            with suppress(OSError):
                if group in Path(path, "entry_points.txt").read_bytes():
                    return True
    return False


def install_command(extra: Extra) -> str:
    """Return the command that adds an extra to this installation."""
    # Imported here: few processes need it.
    from resource_server.runtime import installation

    return installation.detect().extra_command(extra, PACKAGES[extra])


def operator_hint(extra: Extra) -> str:
    """Return the hint for a client, without the command, which shows paths of this machine."""
    return f"its operator can add the extra `{extra}` (`resource-server doctor` prints the command)"
