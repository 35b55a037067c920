"""Entries as hosts write them: what is ours, and what is read of any value."""

from __future__ import annotations

import pytest

from resource_server.cli.hosts.known_hosts import HOSTS
from resource_server.cli.hosts.server_entry import ServerEntry, Shape
from tests.cases import for_each


@for_each(
    ("command", "served"),
    [
        ("resource-server serve", ()),
        ("/x/resource-server serve a b", ("a", "b")),
        (r"C:\x\Resource-Server.EXE serve a", ("a",)),
        ("python3.12 -m resource_server serve a", ("a",)),
        ("uvx resource-server serve a", ("a",)),
        ("uvx --from x[y] resource-server serve serve", ("serve",)),
        ("uvx --from resource-server resource-server serve a", ("a",)),
        ("uv tool run --from resource-server resource-server serve a", ("a",)),
        ("", None),
        ("resource-server", None),
        ("resource-server check a", None),
        ("resource-server-2 serve a", None),
        ("python -m other serve", None),
        ("python script.py -m resource_server serve", None),
        ("uvx other serve", None),
        ("sh -c resource-server serve", None),
    ],
)
def test_what_an_entry_of_this_program_serves_is_found(
    command: str, served: tuple[str, ...] | None
) -> None:
    assert ServerEntry("n", tuple(command.split())).served == served


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.id)
def test_what_a_host_writes_is_read_again(host: object) -> None:
    shape = next(each.shape for each in HOSTS if each is host)
    for entry in (
        ServerEntry("n", ("/x", "a b", "")),
        ServerEntry("n", ("/x",)),
        ServerEntry("n", url="http://h/"),
    ):
        found = shape.read("n", shape.written(entry))
        if entry.url and shape.url is None:
            assert found.command[-1] == entry.url
        else:
            assert found == entry


@for_each(
    "value",
    [
        None,
        [],
        "x",
        {},
        {"command": None},
        {"command": 1, "args": ["a"]},
        {"command": "x", "args": [1]},
        {"command": "x", "args": {"a": 1}},
        {"url": 1},
        {"command": [], "args": []},
    ],
)
def test_an_entry_of_another_form_has_no_command_and_no_url(value: object) -> None:
    assert Shape().read("n", value) == ServerEntry("n")


def test_only_text_of_an_environment_is_read_and_none_is_shown() -> None:
    found = Shape().read("n", {"command": "x", "env": {"A": "s3cret", "B": 1, "C": None}})
    assert found.environment == {"A": "s3cret"}
    assert "s3cret" not in repr(found)
