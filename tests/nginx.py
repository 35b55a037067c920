"""A real nginx with a configuration of the examples."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.waiting import PATIENCE_S, block_until

EXAMPLES = Path(__file__).parents[1] / "examples"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@contextlib.contextmanager
def balancing(
    place: Path, config: Path, listens: str, replacements: Mapping[str, str]
) -> Generator[int]:
    """Run nginx on a free port instead of `listens`, with each text replaced, which occurs once."""
    assert NGINX is not None
    port = free_port()
    text = config.read_text("utf-8")
    for known, actual in {
        f"listen {listens};": f"listen 127.0.0.1:{port};",
        **replacements,
    }.items():
        assert text.count(known) == 1, known
        text = text.replace(known, actual)
    (place / "nginx.conf").write_text(text)
    shutil.copy(EXAMPLES / "http/locations.conf", place)
    log = place / "nginx.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [NGINX, "-p", place, "-c", place / "nginx.conf", "-e", "stderr", "-g", "daemon off;"],
            stderr=errors,
        )
    try:
        block_until(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, log.read_text()
        yield port
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(PATIENCE_S)


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0
