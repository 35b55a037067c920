"""Facts about the package, from `pyproject.toml` and `resource_server/__init__.py`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACEHOLDER = "OWNER"
"""In the place of the repository's owner until somebody publishes the package."""


@dataclass(frozen=True)
class Facts:
    """What every package index and host is told."""

    name: str
    version: str
    description: str
    license: str
    author: str
    keywords: tuple[str, ...]
    python: str
    urls: dict[str, str]

    @property
    def repository(self) -> str:
        """URL of the repository."""
        return self.urls["Repository"]

    @property
    def owner(self) -> str:
        """Owner of the repository."""
        return self.repository.split("/")[3]

    @property
    def mcp_name(self) -> str:
        """Name in the MCP registry, which GitHub's login of the owner proves."""
        return f"io.github.{self.owner}/{self.name}"

    @property
    def image(self) -> str:
        """Container image without its tag; image names are in lower case."""
        return f"ghcr.io/{self.owner.lower()}/{self.name}"


def read_facts(root: Path = ROOT) -> Facts:
    """Return the facts of the project in a folder."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    module = (root / "resource_server/__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.+)"$', module, re.MULTILINE)
    assert version is not None
    return Facts(
        name=project["name"],
        version=version[1],
        description=project["description"],
        license=project["license"],
        author=project["authors"][0]["name"],
        keywords=tuple(project["keywords"]),
        python=project["requires-python"],
        urls=project["urls"],
    )
