"""Arguments that commands share: sources, and addresses in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest

from resource_server.cli.addresses import with_addresses, with_one_address


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a/x", "b", "x"):
        (tmp_path / name).mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "a/shop.db")) as database, database:
        database.execute("create table orders (id integer primary key)")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "sources", "addresses"),
    [
        ([], [], []),
        (["a"], ["a"], []),
        (["a", "b"], ["a", "b"], []),
        (["a", "a/shop.db"], ["a", "a/shop.db"], []),
        (["a", "postgresql+asyncpg://h/shop"], ["a", "postgresql+asyncpg://h/shop"], []),
        ([".", "a"], ["."], ["a"]),
        ([".", "./a", "b"], ["."], ["./a", "b"]),
        (["a", "a/x"], ["a"], ["a/x"]),
        (["a", "./x"], ["a", "./x"], []),
        (["a", "shop.db"], ["a"], ["shop.db"]),
        (["a/shop.db", "orders"], ["a/shop.db"], ["orders"]),
        (["a", "b", "none"], ["a", "b"], ["none"]),
        (["a", "file:///a/x"], ["a"], ["file:///a/x"]),
        (["a", "b", "file:///a/x", "x"], ["a", "b"], ["file:///a/x", "x"]),
        (["file:///a/x", "file:///a/y"], [], ["file:///a/x", "file:///a/y"]),
        (["misspelt", "file:///a/x"], ["misspelt"], ["file:///a/x"]),
    ],
)
def test_sources_come_before_addresses(
    words: list[str], sources: list[str], addresses: list[str]
) -> None:
    with click.Context(click.Command("list")):
        found = with_addresses(words)
    assert (list(found.sources), list(found.addresses)) == (sources, addresses)


def test_a_word_that_is_here_and_in_a_source_is_ambiguous() -> None:
    with click.Context(click.Command("list")), pytest.raises(click.UsageError) as caught:
        with_addresses(["a", "x"])
    assert caught.value.message == "'x' is here and in a source; write ./x, or the URI"


@pytest.mark.parametrize(
    ("words", "sources", "address"),
    [
        (["x"], [], "x"),
        (["a", "x"], ["a"], "x"),
        (["a", "b", "x"], ["a", "b"], "x"),
        (["a/shop.db", "orders"], ["a/shop.db"], "orders"),
        (["file:///a/x"], [], "file:///a/x"),
        (["misspelt", "file:///a/x"], ["misspelt"], "file:///a/x"),
    ],
)
def test_the_last_word_is_the_address_of_a_command_that_needs_one(
    words: list[str], sources: list[str], address: str
) -> None:
    with click.Context(click.Command("read")):
        found = with_one_address(words)
    assert (list(found.sources), list(found.addresses)) == (sources, [address])


@pytest.mark.parametrize("words", [[], ["sqlite:///shop.db"], ["a", "postgresql+asyncpg://h/shop"]])
def test_a_missing_address_is_a_usage_error(words: list[str]) -> None:
    with click.Context(click.Command("read")), pytest.raises(click.UsageError) as caught:
        with_one_address(words)
    assert "URI or path of a resource is missing" in caught.value.message
