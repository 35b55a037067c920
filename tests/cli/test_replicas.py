"""What `check` says to a person who runs several replicas of a server."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Run

KEY = "server: {key: one key of these tests and long enough}\n"
SOURCES = """
roots: {inside: {path: docs}, polled: {path: docs, watch: poll}, still: {path: docs, watch: off}}
databases: {shop: {url: "sqlite:///shop.db", interval: 250ms}}
"""
PLUGIN = """
from resource_server.provider import Resource

class Mine:
    templates = ()
    def list(self, parent, *, after, limit): return []
    def metadata(self, path):
        return Resource(path=path, name="x", type="collection", details={DETAILS})
    async def read(self, path, query): return []
    async def changes(self, interest):
        yield
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return tmp_path


def notes(run: Run, folder: Path, manifest: str) -> list[str]:
    """Return the lines on replicas in the report of a manifest."""
    (folder / "mcp-resources.yaml").write_text(manifest)
    done = run("check", folder)
    assert (done.status, done.err) == (0, ""), done.out
    lines = [line.split(maxsplit=1) for line in done.out.splitlines()]
    return [text for word, text in filter(lambda line: len(line) == 2, lines) if word == "replicas"]


def test_the_cost_of_each_replica_is_reported(run: Run, sources: Path) -> None:
    assert notes(run, sources, f"{KEY}{SOURCES}http: {{limits: {{rate: 5}}}}") == [
        "each replica observes the sources itself while clients listen: 1 by events, 2 polled, "
        "at most 300 polls a minute (polled every 1 s, shop every 0.25 s)"
    ]


def test_a_server_over_http_without_a_key_is_told_of_what_ends_with_it(
    run: Run, sources: Path
) -> None:
    (note,) = notes(run, sources, "roots: {still: {path: docs, watch: off}}\nhttp: {metrics: true}")
    assert note.startswith("without 'key' in server, ids of sessions")


@pytest.mark.parametrize("key", ["", KEY])
def test_nothing_is_said_without_an_http_section(run: Run, sources: Path, key: str) -> None:
    assert notes(run, sources, f"{key}{SOURCES}") == []


@pytest.mark.parametrize(
    ("details", "cost"),
    [
        ('{"changes": {"interval": 2}}', "0 by events, 1 polled, at most 30 polls a minute"),
        ("None", "1 by events, 0 polled"),
        ('{"changes": None}', "1 by events, 0 polled"),
        ('{"changes": {"interval": -1}}', "1 by events, 0 polled"),
        ('{"changes": {"interval": 0}}', "1 by events, 0 polled"),
        ('{"changes": {"interval": "often"}}', "1 by events, 0 polled"),
    ],
)
def test_a_plugin_may_say_anything_of_its_polling(
    run: Run, sources: Path, details: str, cost: str
) -> None:
    (sources / "mine.py").write_text(PLUGIN.replace("{DETAILS}", details))
    manifest = f"{KEY}providers: {{mine: {{use: mine.py}}}}\nhttp: {{metrics: true}}"
    (note,) = notes(run, sources, manifest)
    assert cost in note


def test_a_plugin_that_fails_to_describe_itself_counts_as_one_with_events(
    run: Run, sources: Path
) -> None:
    (sources / "mine.py").write_text(PLUGIN.replace("{DETAILS}", "1 / 0"))
    (sources / "mcp-resources.yaml").write_text(
        f"{KEY}providers: {{mine: {{use: mine.py}}}}\nhttp: {{metrics: true}}"
    )
    done = run("check", sources)
    assert "Traceback" not in done.err
    assert "1 by events, 0 polled" in done.out
