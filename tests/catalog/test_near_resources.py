"""Resources near one that is missing: what is suggested, and that nothing hidden ever is."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from resource_server import access
from resource_server.access import Access, Caller
from resource_server.catalog.catalog import Catalog
from resource_server.catalog.mount import Mount
from resource_server.catalog.near_resources import near_resources
from resource_server.errors import MountUnavailable, ResourceNotFound
from resource_server.provider import Provider
from resource_server.providers.database.options import ColumnOptions, TableOptions
from resource_server.providers.database.provider import Database
from resource_server.providers.filesystem import Filesystem
from resource_server.providers.filesystem.options import DirectoryOptions
from tests.cases import for_each
from tests.protocol.tools.tooled import called, refusal
from tests.protocol.wire import EVERY, MODERN, Wire, server_of
from tests.providers_for_tests import Broken, Folder, Leaf, SlowTree, Tree
from tests.waiting import PATIENT

pytestmark = pytest.mark.anyio

NODES: dict[str, Any] = {
    "README.md": "",
    "src": {"main.py": "", "models.py": "", "deep": {"paginator.py": ""}},
    "docs": {"index.md": "", "a b.md": ""},
    "secret": Folder({"README.md": ""}),
    "gone.md": Leaf(raises=ResourceNotFound()),
}


async def catalog_of(*providers: Provider, **more: Any) -> Catalog:
    names = ("one", "two")
    mounts = [
        Mount(name, f"test://{name}/", provider, **more)
        for name, provider in zip(names, providers, strict=False)
    ]
    catalog = Catalog(mounts, timing=PATIENT)
    await catalog.start()
    return catalog


@for_each("tree", [Tree, SlowTree])
@for_each(
    ("asked", "near"),
    [
        ("test://one/READEM.md", ["test://one/README.md"]),
        ("test://one/readme.md", ["test://one/README.md"]),
        ("test://one/scr/main.py", ["test://one/src/main.py"]),
        ("test://one/src/model.py", ["test://one/src/models.py"]),
        ("test://one/docs/a_b.md", ["test://one/docs/a%20b.md"]),
        ("test://one/src/main.py/x", []),
        ("test://one/nothing/like/it", []),
        ("test://one/secre/README.md", []),
        ("other://one/README.md", []),
        ("README.md", []),
        ("", []),
        ("test://one/" + "x/" * 5000, []),
    ],
)
async def test_names_with_a_slip_are_corrected(
    tree: type[Tree], asked: str, near: list[str]
) -> None:
    assert await near_resources(await catalog_of(tree(NODES)), asked) == near


@for_each(
    ("asked", "near"),
    [
        ("test://one/paginator.py", ["test://one/src/deep/paginator.py"]),
        ("test://one/src/README.md", ["test://one/README.md"]),
        ("test://one/gone.md", []),
        ("src/main.py", ["test://one/src/main.py"]),
        ("/one/src/main.py", ["test://one/src/main.py"]),
        ("file:///one/src/main.py", ["test://one/src/main.py"]),
        ("test://oen", ["test://one", "test://two"]),
    ],
)
async def test_tools_look_in_other_places_too(asked: str, near: list[str]) -> None:
    catalog = await catalog_of(Tree(NODES), Tree({}))
    assert await near_resources(catalog, asked, elsewhere=True) == near


async def test_there_are_at_most_three() -> None:
    catalog = await catalog_of(Tree({f"page{n}.md": "" for n in range(3000)}))
    assert len(await near_resources(catalog, "test://one/pag.md", elsewhere=True)) == 3


async def test_a_provider_that_fails_only_costs_the_suggestions() -> None:
    class Fails(SlowTree):
        async def list(self, *_: object, **__: object) -> Any:
            raise RuntimeError

    for provider in (Fails(NODES), Broken()):
        catalog = await catalog_of(provider)
        assert await near_resources(catalog, "test://one/x", elsewhere=True) == []


# -- what callers are told


@for_each("revision", EVERY)
@for_each("method", ["resources/read", "resources/list", "resources/metadata"])
async def test_the_protocol_names_near_resources(revision: str, method: str) -> None:
    wire = Wire(await server_of(Tree(NODES)), revision)
    error = await wire.error(method, {"uri": "test://one/src/mian.py"})
    assert error["code"] == (-32602 if revision in MODERN else -32002)
    assert error["data"] == {
        "uri": "test://one/src/mian.py",
        "suggestions": ["test://one/src/main.py"],
    }
    error = await wire.error(method, {"uri": "test://one/nothing"})
    assert error["data"] == {"uri": "test://one/nothing"}


@for_each("name", ["read_resource", "list_resources", "resource_metadata"])
async def test_tools_name_near_resources(name: str) -> None:
    wire = Wire(await server_of(Tree(NODES)), "2025-11-25")
    told = refusal(await called(wire, name, "2025-11-25", uri="test://one/docs/a_b.md"))
    assert told.endswith("Did you mean test://one/docs/a%20b.md?")


# -- nothing hidden


async def suggested(provider: Provider, asked: Sequence[str], caller: Caller) -> list[list[str]]:
    """Return all suggestions for missing URIs."""
    catalog = await catalog_of(provider)
    with access.acting(caller):
        found = [
            [*await near_resources(catalog, uri, elsewhere=elsewhere)]
            for uri in asked
            for elsewhere in (False, True)
        ]
    await catalog.__aexit__(None, None, None)
    return found


FILES = ("plan.md", "sub/other.md", "open/plan-b.md")
HIDDEN = {
    ".env": "named with a dot, and a secret",
    "id_rsa": "a secret",
    "plan-ignored.md": "in .gitignore",
    "plan-excluded.md": "excluded",
    "scoped/plan-scoped.md": "needs a scope",
    "off/plan-off.md": "not exposed",
    "sub/plan-ignored.md": "in .gitignore",
}
ASKED = [
    *(f"test://one/{name}" for name in HIDDEN),
    *(f"test://one/{name}x" for name in HIDDEN),
    "test://one/plan-ignore.md",
    "test://one/scope/plan-scoped.md",
    "test://one/of/plan-off.md",
    "test://one/open/plan-scoped.md",
    "id_rsa",
    "plan-excluded.md",
]


async def test_no_hidden_file_is_named_or_changes_what_is(tmp_path: Path) -> None:
    def folder(name: str, files: Sequence[str]) -> Filesystem:
        top = tmp_path / name / "one"
        for each in files:
            (top / each).parent.mkdir(parents=True, exist_ok=True)
            (top / each).write_text("x")
        (top / ".gitignore").write_text("plan-ignored.md\n")
        rules = {
            "scoped": DirectoryOptions(access=Access(scopes=("staff",)), optional=True),
            "off": DirectoryOptions(exposed=False, optional=True),
        }
        return Filesystem(top, exclude=("plan-excluded.md",), directories=rules)

    nobody = Caller("somebody", frozenset())
    found = await suggested(folder("with", [*FILES, *HIDDEN]), ASKED, nobody)
    assert found == await suggested(folder("without", FILES), ASKED, nobody)
    assert any(found)
    staff = Caller("somebody", frozenset(("staff",)))
    found = await suggested(folder("with", [*FILES, *HIDDEN]), ASKED, staff)
    named = {uri for each in found for uri in each}
    assert "test://one/scoped/plan-scoped.md" in named
    assert named.isdisjoint(f"test://one/{name}" for name in HIDDEN if "scoped" not in name)


async def test_no_hidden_table_column_or_row_is_named(tmp_path: Path) -> None:
    def database(name: str, *, hidden: bool) -> Database:
        file = tmp_path / f"{name}.db"
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("create table people (name text primary key, kind text)")
            connection.execute("insert into people values ('ada', 'open')")
            if hidden:
                connection.execute("insert into people values ('adam', 'secret')")
                connection.execute("create table peoples (id integer primary key)")
                connection.execute("create table staff (id integer primary key)")
            connection.commit()
        tables: dict[str, TableOptions | Literal[False]] = {
            "people": TableOptions(where="kind = 'open'", columns=ColumnOptions(hide=("kind",)))
        }
        if hidden:
            tables["peoples"] = False
            tables["staff"] = TableOptions(access=Access(scopes=("staff",)))
        return Database(f"sqlite:///{file}", tables=tables)

    asked = [
        f"test://one/{path}"
        for path in (
            "peopl",
            "peoples",
            "peoplesx/~rows",
            "staf",
            "staff",
            "people/adam",
            "people/adamx",
            "people/~row",
            "people/ada/~cell/kind",
            "people/ada/~cell/kin",
        )
    ]
    nobody = Caller("somebody", frozenset())
    found = await suggested(database("with", hidden=True), asked, nobody)
    assert found == await suggested(database("without", hidden=False), asked, nobody)
    assert ["test://one/people"] in found
    assert ["test://one/people/~rows"] in found


async def test_no_hidden_mount_is_named() -> None:
    mounts = [
        Mount("open", "test://open/", Tree(NODES)),
        Mount("opened", "test://opened/", Tree(NODES), access=frozenset(("staff",))),
        Mount("opener", "test://opener/", Tree(NODES), listed=False),
    ]
    catalog = Catalog(mounts, timing=PATIENT)
    with access.acting(Caller("somebody", frozenset())):
        for uri in ("test://opene", "test://opened/src/main.py", "opened/src/main.py"):
            found = await near_resources(catalog, uri, elsewhere=True)
            assert not any("opene" in each for each in found), uri
    for uri in ("test://opened/src/mian.py", "test://opener/src/mian.py"):
        assert await near_resources(catalog, uri) == [uri.replace("mian", "main")]


async def test_a_mount_that_cannot_start_does_not_hide_what_others_have() -> None:
    class Fallen(Tree):
        async def __aenter__(self) -> None:
            raise MountUnavailable("the disk is gone")

    def fail(_: object) -> None:
        raise RuntimeError

    for provider in (Fallen({}), Broken(metadata=fail)):
        others: dict[str, Any] = {name: {"main.py": ""} for name in "abc"}
        catalog = await catalog_of(provider, Tree({**NODES, **others}))
        found = await near_resources(catalog, "src/main.py", elsewhere=True)
        assert found[0] == "test://two/src/main.py"
