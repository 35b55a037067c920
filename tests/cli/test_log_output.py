"""The log on standard error: its levels, and readers that do not read."""

from __future__ import annotations

import logging
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from resource_server.cli import log_output
from resource_server.transports.http.observability import access_log
from tests.cli.conftest import (
    INITIALIZE,
    LIST,
    Run,
    json_lines,
    serve,
    serve_command,
)
from tests.waiting import PATIENCE_S

FORGETFUL = """
import asyncio
from resource_server.provider import Content, Resource

async def forgotten():
    me = asyncio.current_task()
    raise ValueError

class Mine:
    templates = ()
    def list(self, parent, *, after, limit): return []
    def metadata(self, path):
        return Resource(path=path, name="x", type="document" if path else "collection")
    async def read(self, path, query):
        task = asyncio.create_task(forgotten())
        await asyncio.wait([task])
        return [Content("x")]
"""


def test_the_access_log_is_enabled_by_the_name_of_its_logger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, access_log.logger.name):  # restores the level
        log_output.enable_access_log()
        assert access_log.logger.level == logging.INFO


def test_a_late_first_log_line_does_not_keep_the_process(folder: Path) -> None:
    # A task that refers to itself goes when the interpreter does, and is complained of.
    (folder / "mine.py").write_text(FORGETFUL, "utf-8")
    (folder / "mcp-resources.yaml").write_text("providers: {mine: {use: mine.py}}\n", "utf-8")
    read = {"id": 2, "method": "resources/read", "params": {"uri": "resource://mine/x"}}
    status, answers, _ = serve(folder, messages=(INITIALIZE, read))
    assert (status, [answer["id"] for answer in answers]) == (0, [1, 2])


def test_an_unread_log_does_not_block_serving(tmp_path: Path) -> None:
    (tmp_path / "mcp-resources.yaml").write_text("roots: {gone: {path: gone}}\n", "utf-8")
    unread, log = os.pipe()
    os.set_blocking(log, False)
    with suppress(BlockingIOError):
        while True:
            os.write(log, b"x" * 4096)
    os.set_blocking(log, True)
    done = subprocess.run(
        serve_command(tmp_path),
        input=json_lines(INITIALIZE, LIST).encode(),
        stdout=subprocess.PIPE,
        stderr=log,
        timeout=PATIENCE_S,
        check=True,
    )
    os.close(log)
    os.close(unread)
    assert len(done.stdout.splitlines()) == 2


def test_the_verbose_option_logs_more(run: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "mcp-resources.yaml"
    manifest.write_text("roots:\n  gone: {path: no}\n", "utf-8")
    assert "resource-server: info: " not in run("list", manifest).err
    assert "resource-server: info: listing mount gone" in run("list", "-v", manifest).err
