"""The pictures of the docs: a terminal, and the explorer; `python -m tests.picture`."""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, unescape

from tests.explorer import pictures

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs/terminal.svg"
TITLE = "resource-server in a terminal"
WIDTH = 90
"""Columns of the terminal."""
COMMANDS = (
    "resource-server list examples/project",
    "resource-server read examples/project 'README.md?lines=1-3'",
    "resource-server read examples/shop '~query/top_customers?country=FR&format=markdown'",
)
_STYLES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def recorded() -> str:
    """Return what a person sees in the terminal, with its colours."""
    subprocess.run([_script("python"), ROOT / "examples/shop/make.py"], check=True)
    return "".join(f"\x1b[1m$ {command}\x1b[0m\n{_output(command)}" for command in COMMANDS)


def plain(text: str) -> str:
    """Return the text without colours."""
    return _STYLES.sub("", text)


def shown() -> str:
    """Return the text of the picture, as its description has it."""
    found = re.search(r"<desc>(.*?)</desc>", PICTURE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return unescape(found[1])


def _output(command: str) -> str:
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "LINES": "50", "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    program, *arguments = shlex.split(command)
    with subprocess.Popen(
        [_script(program), *arguments],
        cwd=ROOT,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        data = b"".join(_read(ours))
    os.close(ours)
    return data.decode().replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux: the program has closed the other end
            return
        if not data:
            return
        yield data


def _script(name: str) -> str:
    return f"{sysconfig.get_path('scripts')}/{name}"


def draw(text: str) -> str:
    """Return the picture of a terminal that shows the text."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(text), end="")
    svg = console.export_svg(title=TITLE, unique_id="terminal")
    # Fonts of the reader, none from elsewhere; and a description for those who cannot see it.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(?<=font-family: )Fira Code[^;]*", _FONTS, svg)
    described = f"<title>{TITLE}</title>\n<desc>{escape(plain(text))}</desc>"
    return svg.replace(">", f' role="img">\n{described}', 1)


if __name__ == "__main__":
    PICTURE.write_text(draw(recorded()), "utf-8")
    if pictures.CHROMIUM is not None:
        pictures.draw()
