"""Four sources that every host is replayed on, each with the facts that its replay checks."""

from __future__ import annotations

import base64
import os
import runpy
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
PNG = (EXAMPLES / "project/assets/logo.png").read_bytes()
LARGE_BYTES = 5_000_000
"""Size of the large document among the hostile names."""
LARGE_TREE = (100, 10, 100)
"""Directories of the large tree, directories in each, and documents in each of these."""

_APPEND = "import sys; open(sys.argv[1], 'a').write('changed')"
_UPDATE = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
    " c.execute(\"update customers set name = name || '!' where id = 1\"); c.commit()"
)
_CREATE = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
    ' c.execute("create table added (id integer primary key)"); c.commit()'
)


@dataclass(frozen=True)
class Change:
    """A change of the source while a host listens."""

    path: str
    """The path of the resource that changes or is new."""
    command: list[str]


@dataclass(frozen=True)
class Question:
    """What a model asks of the tools, and the path and text that answer it."""

    text: str
    path: str
    answer: str


@dataclass(frozen=True)
class Query:
    """A query tool, its arguments, and a text in its result."""

    name: str
    given: Mapping[str, str]
    answer: str


@dataclass(frozen=True)
class Source:
    """A served source; paths are decoded and relative to the mount."""

    title: str
    served: str
    """The folder or manifest to serve."""
    mount: str
    """The URI of the mount, without a final slash."""
    documents: Mapping[str, str | None]
    """Documents to read: their text, or None for the image."""
    folders: Mapping[str, Sequence[str]]
    """Collections to open: the names of all their children."""
    top: Sequence[str]
    """Collections directly below the mount."""
    listed: Sequence[str] | None
    """Every listed path below the mount; None where the listing is bounded."""
    hidden: Sequence[str]
    """Paths that exist and are not exposed."""
    question: Question
    edited: Change | None = None
    added: Change | None = None
    queries: Sequence[Query] = ()
    read: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Collections of which a read returns only these children: tables, without their rows."""

    def facts(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {**asdict(self), "image": base64.b64encode(PNG).decode()}


def project(place: Path) -> Source:
    """Copy the example project."""
    folder = place / "project"
    shutil.copytree(EXAMPLES / "project", folder, ignore=shutil.ignore_patterns(".cache"))
    listed = """
        README.md assets assets/logo.png contracts contracts/supplier.md db db/schema.sql docs
        docs/getting-started.md docs/images docs/images/order.svg docs/prices.md src src/teashop
        src/teashop/__init__.py src/teashop/orders.py templates templates/receipt.tpl web
        web/cart.js
    """.split()
    read = """
        README.md docs/prices.md docs/images/order.svg src/teashop/orders.py db/schema.sql
        data/prices.csv
    """.split()
    return Source(
        title="the example project",
        served=str(folder),
        mount="file:///project",
        documents={
            **{path: (folder / path).read_text("utf-8") for path in read},
            "assets/logo.png": None,
        },
        folders={
            "docs": ["getting-started.md", "images", "prices.md"],
            "src": ["teashop"],
            "assets": ["logo.png"],
        },
        top="assets contracts db docs src templates web".split(),
        listed=listed,
        hidden=["deploy.pem", "scratch/ideas.md", "web/vendor.min.js", "build/cart.js", ".env"],
        question=Question("def total", "src/teashop/orders.py", "def total(lines"),
        edited=_file_change(folder, "docs/prices.md"),
        added=_file_change(folder, "docs/new.md"),
    )


def names(place: Path) -> Source:
    """Make a tree of hostile names."""
    folder = place / "names"
    texts = """
        100%.md a%20b.md q?x.md h#x.md [id].tsx été.md 中文/説明.md per%cent/x.md a!b,c;d.md
        ends. back\\slash.md quo'te".md {brace}.md plain.md many/000.md
    """.split()
    documents: dict[str, str | None] = {
        path: f"The text of {path}\n" for path in ("my file (1).md", "my folder/x.md", *texts)
    }
    folder.mkdir()
    for path, text in documents.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text or "", "utf-8")
    many = [f"{number:03}.md" for number in range(500)]
    for name in many:
        (folder / "many" / name).write_text(f"The text of many/{name}\n")
    (folder / "empty").mkdir()
    (folder / "large").mkdir()
    (folder / "large/beside.md").write_text("The text of large/beside.md\n")
    (folder / "large/5 MB.txt").write_text("A line of text.\n" * (LARGE_BYTES // 16))
    (folder / "pictures").mkdir()
    (folder / "pictures/logo.png").write_bytes(PNG)
    (folder / "empty.md").touch()
    (folder / ".env").write_text("SECRET=1\n")
    documents["pictures/logo.png"] = None
    listed = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != ".env"]
    return Source(
        title="a tree of hostile names",
        served=str(folder),
        mount="file:///names",
        documents=documents,
        folders={
            "many": many,
            "empty": [],
            "large": ["5 MB.txt", "beside.md"],
            "pictures": ["logo.png"],
            "中文": ["説明.md"],
            "my folder": ["x.md"],
        },
        top=["many", "empty", "large", "pictures", "中文", "my folder", "per%cent"],
        listed=sorted(listed),
        hidden=[".env"],
        question=Question("text of h#x", "h#x.md", "The text of h#x.md"),
        edited=_file_change(folder, "été.md"),
        added=_file_change(folder, "new %20 (1).md"),
    )


def large(place: Path) -> Source:
    """Make a tree of 100,000 documents."""
    folder = place / "large"
    above, middle, below = LARGE_TREE
    for number in range(above * middle):
        directory = folder / f"{number // middle:03}/{number % middle}"
        directory.mkdir(parents=True)
        first = directory / "000.md"
        first.write_text(f"The text of {number}\n")
        for other in range(1, below):  # Hard links are made faster than files.
            os.link(first, f"{directory}/{other:03}.md")
    (folder / "README.md").write_text("Begin here.\n")
    names = [f"{number:03}.md" for number in range(below)]
    return Source(
        title="a tree of 100,000 documents",
        served=str(folder),
        mount="file:///large",
        documents={"README.md": "Begin here.\n", "099/9/099.md": "The text of 999\n"},
        folders={"099/9": names, "099": [str(number) for number in range(middle)]},
        top=[f"{number:03}" for number in range(above)],
        listed=None,
        hidden=[],
        question=Question("README", "README.md", "Begin here."),
    )


def shop(place: Path) -> Source:
    """Copy the example shop and make its database."""
    folder = place / "shop"
    shutil.copytree(EXAMPLES / "shop", folder, ignore=shutil.ignore_patterns("*.db*"))
    runpy.run_path(str(folder / "make.py"), run_name="__main__")
    database = str(folder / "shop.db")
    tables = "customers order_lines orders products sales".split()
    return Source(
        title="the example shop, a database",
        served=str(folder),
        mount="sqlite://shop",
        documents={
            "products/mint": '{"sku":"mint","name":"Mint","price_cents":3,"attributes":'
            '{"origin": "MA", "minutes": [5, 8], "caffeine": false},"picture":null}',
            "sales/2": '{"order_id":2,"country":"FR","ordered_at":"2026-03-05T11:30:00Z",'
            '"total_cents":950}',
        },
        folders={
            table: [*rows.split(), "~rows", "~schema"]
            for table, rows in {
                "customers": "1 2 3 4 5",
                "orders": "1 2 3 5 6",
                "products": "assam-2 ~tearl~2Fgrey gyokuro mint",
                "sales": "1 2 5 6",
            }.items()
        },
        read=dict.fromkeys(tables, ("~rows", "~schema")),
        top=[*tables, "~query"],
        listed=[
            *(path for table in tables for path in (table, f"{table}/~rows", f"{table}/~schema")),
            "~query",
            "~query/waiting",
        ],
        hidden=["audit_log", "audit_log/~rows", "orders/4"],
        question=Question("Dagný", "customers/4", "Dagný Jónsdóttir"),
        edited=Change("customers/1", [sys.executable, "-c", _UPDATE, database]),
        added=Change("added", [sys.executable, "-c", _CREATE, database]),
        queries=[
            Query("top_customers", {"country": "DE"}, "Ada Winter"),
            Query("waiting", {}, "2026-03-06T08:05:00Z"),
        ],
    )


def _file_change(folder: Path, path: str) -> Change:
    return Change(path, [sys.executable, "-c", _APPEND, str(folder / path)])


SOURCES: Mapping[str, Callable[[Path], Source]] = {
    "project": project,
    "large": large,
    "names": names,
    "shop": shop,
}
