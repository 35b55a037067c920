"""What is hidden: every page of it answers as in a server where it does not exist."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from resource_server.explorer.addresses import page_address
from tests.explorer.shop import make_shop
from tests.spellings import host_spellings, wrong_spellings
from tests.transports.program import Answer, Program, request, running

FILE, TABLE = "file:///project/secret.txt", "sqlite://shop/secrets"
HIDDEN = (
    FILE,
    f"{FILE}?lines=1-2",
    f"{FILE}?format=markdown",
    TABLE,
    *(f"{TABLE}/{each}" for each in ("1", "1/~cell/word", "~schema", "~rows", "~rows?limit=1")),
    f"{TABLE}/~rows?where.word.like=h%25&format=csv",
    f"{TABLE}/~summary?by=word",
)
ODD = (
    "FILE:///project/secret.txt",
    "file:/project/secret.txt",
    "file://localhost/project/secret.txt",
    "file:///project//secret.txt",
    "file:///project/./secret.txt",
    "file:///project/docs/../secret.txt",
    "file:///project/docs/%2e%2e/secret.txt",
    "file:///project/SECRET.TXT",
    "file:///project/secret.txt/",
    "file:///project/secret.txt%00",
    "file:///project/secret.txt.",
    "file:///project\\secret.txt",
    "SQLITE://SHOP/secrets",
    "sqlite://shop/SECRETS",
    "sqlite://shop/~tsecrets",
    "sqlite://shop/main/secrets",
)
KINDS = ("", "source/", "raw/", "model/", "live/")


def _spellings() -> list[str]:
    found: list[str] = [*ODD, *HIDDEN]
    for uri in (FILE, TABLE, f"{TABLE}/1"):
        found += [*host_spellings(uri), *wrong_spellings(uri)]
    return found


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Program, Program]]:
    """A server that hides a file and a table, and one that never had them."""
    places = [tmp_path_factory.mktemp("hidden"), tmp_path_factory.mktemp("missing")]
    for place in places:
        manifest = make_shop(place)
        text = manifest.read_text("utf-8").replace("secrets: false", '"secret*": false')
        manifest.write_text(text, encoding="utf-8")
    (places[1] / "project" / "secret.txt").unlink()
    _change(places[0], "insert into secrets values (1, 'hidden')")
    _change(places[1], "drop table secrets")
    with (
        running(places[0] / "mcp-resources.yaml") as hidden,
        running(places[1] / "mcp-resources.yaml") as missing,
    ):
        yield hidden, missing


def _change(place: Path, statement: str) -> None:
    with sqlite3.connect(place / "shop.db") as database:
        database.execute(statement)
    database.close()


def _paths(uri: str) -> list[str]:
    addresses = {page_address(uri), quote(uri, safe="/:%?=&~")}
    paths = [f"/explore/{kind}{address}" for kind in KINDS for address in sorted(addresses)]
    return [
        *paths,
        f"/explore/search?{urlencode({'query': 'hidden', 'uri': uri})}",
        f"/explore/filter?{urlencode({'uri': uri, 'column': 'word', 'value': 'hidden'})}",
        f"/explore/expand?{urlencode({'~template': uri})}",
    ]


def _asked(program: Program, data: bytes) -> tuple[int, dict[str, str], bytes]:
    answer: Answer = program.ask(data)
    port = str(program.port)
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status, headers, answer.body.replace(port.encode(), b"PORT")


def test_hidden_and_missing_answer_alike_in_every_spelling(twins: tuple[Program, Program]) -> None:
    different: list[str] = []
    for uri in _spellings():
        for path in _paths(uri):
            hidden, missing = (_asked(each, request("GET", path=path)) for each in twins)
            if hidden != missing or b"hidden\n" in hidden[2]:
                different.append(f"{path}: {hidden[0]} and {missing[0]}")
    assert different == []


def test_tools_tried_out_answer_alike(twins: tuple[Program, Program]) -> None:
    for uri in HIDDEN:
        for tool, name in (("read_resource", "uri"), ("search_resources", "uri")):
            asked = urlencode({name: uri, "query": "hidden"}).encode()
            form = request(
                "POST", asked, path=f"/explore/tools/{tool}", sec_fetch_site="same-origin"
            )
            form = form.replace(b"application/json", b"application/x-www-form-urlencoded", 1)
            hidden, missing = (_asked(each, form) for each in twins)
            assert hidden == missing, uri
            assert hidden[0] == 200


def test_the_nearest_visible_neighbours_are_shown(twins: tuple[Program, Program]) -> None:
    for uri in ("file:///project/main.py", "sqlite://shop/orders", "sqlite://shop/orders/1"):
        for kind in ("", "raw/", "model/"):
            if kind == "raw/" and uri == "sqlite://shop/orders":
                continue
            path = f"/explore/{kind}{page_address(uri)}"
            assert {_asked(each, request("GET", path=path))[0] for each in twins} == {200}
