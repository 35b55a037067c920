"""`resource-server explore`: a link that works once, and nothing for anybody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.explorer.shop import make_shop, text_of
from tests.transports.program import Answer, RawConnection, request

_LINK = re.compile(r"open http://127\.0\.0\.1:(\d+)(/explore/sign-in\?code=\S+)")


class Explored(NamedTuple):
    """The command, as it runs."""

    port: int
    link: str

    def get(self, path: str, **headers: str) -> Answer:
        with RawConnection(self.port) as line:
            return line.ask(request("GET", path=path, **{"accept": "text/html", **headers}))

    def cookie(self) -> str:
        """Open the link."""
        return self.get(self.link).headers["set-cookie"].partition(";")[0]


@contextmanager
def exploring(place: Path, *options: str, env: dict[str, str] | None = None) -> Generator[Explored]:
    command = [sys.executable, "-m", "resource_server", "explore", str(place), *options]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    assert process.stderr is not None
    try:
        found = None
        for line in process.stderr:
            if found := _LINK.search(line):
                break
        assert found is not None
        yield Explored(int(found[1]), found[2])
    finally:
        process.terminate()
        process.stderr.read()
        assert process.wait() == 0
        process.stderr.close()


def test_a_look_at_the_link_does_not_use_it_up(tmp_path: Path) -> None:
    make_shop(tmp_path)
    with exploring(tmp_path, "--no-open") as explored:
        for method in ("HEAD", "OPTIONS", "PUT"):
            with RawConnection(explored.port) as line:
                assert "set-cookie" not in line.ask(request(method, path=explored.link)).headers
        assert explored.get("/explore/", cookie=explored.cookie()).status == 200


def test_the_link_shows_everything_and_works_once(tmp_path: Path) -> None:
    make_shop(tmp_path)
    with exploring(tmp_path, "--no-open") as explored:
        cookie = explored.cookie()
        page = explored.get("/explore/sqlite:%2F%2Fshop/orders", cookie=cookie)
        assert "120 rows" in text_of(page)
        assert explored.get(explored.link).status == 403


def test_nobody_else_on_the_machine_is_let_in(tmp_path: Path) -> None:
    make_shop(tmp_path)
    with exploring(tmp_path, "--no-open") as explored:
        assert explored.get("/explore/file:%2F%2F/project").status == 303
        assert explored.get("/explore/sign-in?code=guess").status == 403
        with RawConnection(explored.port) as line:
            listing = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
            assert line.ask(request("POST", listing)).status == 401


def test_what_needs_scopes_is_shown_to_the_owner(tmp_path: Path) -> None:
    (tmp_path / "wages").mkdir()
    manifest = 'roots: {wages: {path: wages, uri: "file:///wages/", access: {scopes: [hr]}}}\n'
    (tmp_path / "mcp-resources.yaml").write_text(manifest, encoding="utf-8")
    with exploring(tmp_path, "--no-open") as explored:
        assert explored.get("/explore/file:%2F%2F/wages", cookie=explored.cookie()).status == 200


def test_a_browser_is_opened_with_the_link(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser.write_text(f"#!/bin/sh\nprintf '%s' \"$1\" > '{opened}'\n", encoding="utf-8")
    browser.chmod(0o755)
    (tmp_path / "folder").mkdir()
    with exploring(tmp_path / "folder", env={"BROWSER": str(browser)}) as explored:
        assert opened.read_text().endswith(explored.link)
