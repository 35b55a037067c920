"""The pictures of the explorer in the docs, taken by a browser; `python -m tests.picture`."""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from resource_server.explorer.addresses import page_address
from tests.transports.program import Program, running

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/pictures"
CHROMIUM = shutil.which("chromium")
VIEWS = {
    "start": "",
    "folder": page_address("file:///project"),
    "document": page_address("file:///project/src/teashop/orders.py"),
    "table": page_address("sqlite://shop/orders"),
    "row": page_address("sqlite://shop/orders/1"),
    "chart": page_address("sqlite://shop/orders/~summary?by=status"),
    "query": page_address("sqlite://shop/~query/top_customers?country=FR"),
    "search": "search?query=tea",
    "tools": "tools",
    "model": f"model/{page_address('sqlite://shop/orders')}",
    "hidden": f"hidden/{page_address('file:///project')}",
}
"""The address of each view, below the explorer's start page."""

_COLOURS = 48


class Look(NamedTuple):
    """One way in which a view is shown."""

    name: str
    width: int
    scheme: str


LOOKS = (Look("light", 900, "light"), Look("dark", 900, "dark"), Look("phone", 390, "light"))
_HEIGHT = 620


@contextmanager
def served() -> Generator[Program]:
    """Serve copies of two examples as one server."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        shutil.copytree(ROOT / "examples/shop", place / "shop")
        shutil.copytree(
            ROOT / "examples/project", place / "project", ignore=shutil.ignore_patterns(".cache")
        )
        subprocess.run(["python3", place / "shop/make.py"], check=True)
        manifest = place / "mcp-resources.yaml"
        text = (place / "shop/mcp-resources.yaml").read_text("utf-8")
        text = text.replace("sqlite:///shop.db", "sqlite:///shop/shop.db")
        manifest.write_text(f"{text}\nroots: {{project: {{path: project}}}}\n", encoding="utf-8")
        with running(manifest) as program:
            yield program


def draw() -> None:
    """Take all pictures anew."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    with served() as program, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for look in LOOKS:
            size: Any = {"width": look.width, "height": _HEIGHT}
            scheme: Any = look.scheme
            page = browser.new_page(viewport=size, color_scheme=scheme)
            for view, address in VIEWS.items():
                page.goto(f"http://127.0.0.1:{program.port}/explore/{address}")
                page.wait_for_load_state("load")
                _save(page.screenshot(), FOLDER / f"{view}-{look.name}.png")
        browser.close()
    _join(("table-light.png", "model-light.png"), FOLDER / "explorer.png")


def _save(data: bytes, file: Path) -> None:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        picture.convert("RGB").quantize(_COLOURS).save(file, optimize=True)


def _join(names: tuple[str, str], file: Path) -> None:
    """Put two pictures beside each other."""
    from PIL import Image

    with Image.open(FOLDER / names[0]) as left, Image.open(FOLDER / names[1]) as right:
        joined = Image.new("RGB", (left.width + right.width + 2, left.height), "#cfccc4")
        joined.paste(left.convert("RGB"), (0, 0))
        joined.paste(right.convert("RGB"), (left.width + 2, 0))
        joined.quantize(_COLOURS).save(file, optimize=True)
