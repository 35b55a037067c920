"""The demonstration of `serve --demo`: a shop and a small project in a temporary folder."""

from __future__ import annotations

import pathlib
import shlex
import sqlite3
import tempfile
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager

_PACKAGE = pathlib.Path(__file__).parents[1]
_SHOP = "examples/shop"
_PROJECT = {
    "README.md": """# Kettle

Boils water for tea. Start with the [guide](docs/guide.md).
""",
    "docs/guide.md": """# Guide

1. Fill the kettle.
2. Call `boil(litres)`, and wait as many seconds as it returns.
""",
    "src/kettle.py": '''"""The kettle."""

SECONDS_PER_LITRE = 180


def boil(litres: float) -> float:
    """Return how long the water takes, in seconds."""
    return litres * SECONDS_PER_LITRE
''',
    ".gitignore": "build/\n",
    "build/kettle.log": "Ignored files are not served.\n",
    ".env": "TOKEN=secrets-are-never-served\n",
}


@contextmanager
def made() -> Generator[tuple[str, ...]]:
    """Make the shop and the project; give them as sources, and remove them at the end."""
    with tempfile.TemporaryDirectory(
        prefix="resource-server-demo-", ignore_cleanup_errors=True
    ) as name:
        shop, project = pathlib.Path(name, "shop"), pathlib.Path(name, "project")
        _make_shop(shop)
        for path, text in _PROJECT.items():
            file = project / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        yield str(shop), str(project)


def _make_shop(folder: pathlib.Path) -> None:
    # A wheel has the example inside the package, a clone beside it.
    packed = _PACKAGE / _SHOP
    data = packed if packed.is_dir() else _PACKAGE.parent / _SHOP
    folder.mkdir()
    (folder / "mcp-resources.yaml").write_bytes((data / "mcp-resources.yaml").read_bytes())
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        database.executescript((data / "shop.sql").read_text("utf-8"))


def hints(sources: Sequence[str]) -> Sequence[str]:
    """Return lines with commands to try in another terminal, and what each shows."""
    folder = pathlib.Path(sources[0]).parent
    return [
        f"To try it, in another terminal: cd {shlex.quote(str(folder))}",
        "  resource-server list shop project                       everything that is served",
        "  resource-server read shop orders/5                      a row; its card is masked",
        "  resource-server read project 'docs/guide.md?lines=3-4'  lines of a file",
        "  resource-server check project --explain .env            why a file is hidden",
    ]
