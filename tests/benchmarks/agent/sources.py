"""What the questions are about: the Django package of one version, and a shop's database."""

from __future__ import annotations

import datetime
import hashlib
import importlib.util
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tests.benchmarks.client import ROOT

DJANGO = "Django==5.2.8"
DJANGO_SHA256 = "37e687f7bd73ddf043e2b6b97cfe02fcbb11f2dbb3adccc6a2b18c6daa054d7f"
SHOP = ROOT / "examples/shop"
CUSTOMERS, ORDERS = 200, 1_000

_FIRST = "Ada Bo Chloé Dagný Emeka Farid Greta Hanna Imre Jana Kofi Lea Mio Nora Omar Pia".split()
_LAST = "Winter Chen Martin Obi Novak Silva Berg Kaya Rossi Okafor Lind Moreau Sato".split()
_COUNTRIES = ("DE", "FR", "IS", "IT", "JP", "SE")
_TEAS = "Sencha Darjeeling Ceylon Oolong Lapsang Rooibos Jasmine Matcha Pu-erh Keemun".split()
_GRADES = ("first flush", "autumn", "organic")
_STATUSES = ("sent",) * 20 + ("paid",) * 3 + ("draft", "open")

QUERIES = """
      orders_of_customer:
        description: All orders of a customer, the newest first.
        sql: >-
          select id, status, ordered_at from orders where customer_id = :customer_id
          order by ordered_at desc
        parameters:
          customer_id: {type: integer}
      latest_orders:
        description: The newest orders with the names of their customers.
        sql: >-
          select orders.id, customers.name, orders.status, orders.ordered_at from orders
          join customers on customers.id = orders.customer_id
          order by orders.ordered_at desc limit :count
        parameters:
          count: {type: integer, default: 10, minimum: 1, maximum: 100}
"""
"""Two more queries than the example declares, as an operator adds them for agents."""


def django(scratch: Path) -> Path:
    """Download the package into `scratch` and return its folder.

    Raises:
        AssertionError: the package index gives other bytes than these questions are about.
        CalledProcessError: pip could not download it.
    """
    pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip"]
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(scratch)]
    subprocess.run([*pip, "download", *options, DJANGO], check=True)
    (wheel,) = scratch.glob("*.whl")
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == DJANGO_SHA256, f"other {DJANGO}"
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            file = Path(archive.extract(member, scratch))
            changed = datetime.datetime(*member.date_time, tzinfo=datetime.UTC).timestamp()
            os.utime(file, (changed, changed))
    wheel.unlink()
    shutil.rmtree(next(scratch.glob("*.dist-info")))
    return scratch / "django"


def shop(scratch: Path) -> Path:
    """Make the shop's database with more rows, and its manifest; return the database."""
    database = scratch / "shop.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((SHOP / "shop.sql").read_text("utf-8"))
        for statement, rows in _more_rows():
            connection.executemany(statement, rows)
        connection.commit()
    manifest = (SHOP / "mcp-resources.yaml").read_text("utf-8")
    (scratch / "mcp-resources.yaml").write_text(manifest.rstrip("\n") + QUERIES, "utf-8")
    return database


def _more_rows() -> Iterator[tuple[str, Sequence[tuple[object, ...]]]]:
    chance = random.Random(1)  # noqa: S311  the same rows each time
    names = [f"{first} {last}" for last in _LAST for first in _FIRST][6:]
    customers = [
        (id, names[id - 6], f"c{id}@example.org", chance.choice(_COUNTRIES))
        for id in range(6, CUSTOMERS + 1)
    ]
    yield "insert into customers values (?, ?, ?, ?)", customers
    products = [
        (
            f"{tea.lower()}-{number}",
            f"{tea}, {grade}",
            chance.randint(3, 30),
            f'{{"origin": "{chance.choice(("CN", "IN", "JP", "LK"))}", "minutes": [{number + 2}]}}',
        )
        for tea in _TEAS
        for number, grade in enumerate(_GRADES, 1)
    ]
    yield "insert into products (sku, name, price_cents, attributes) values (?, ?, ?, ?)", products
    orders: list[tuple[object, ...]] = []
    lines: list[tuple[object, ...]] = []
    begin = datetime.datetime(2026, 3, 9, 8, tzinfo=datetime.UTC)
    for id in range(7, ORDERS + 1):
        at = begin + datetime.timedelta(minutes=97 * id + chance.randint(0, 90))
        times = [f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in (at, at + datetime.timedelta(hours=7))]
        card = f"4111{chance.randint(10**11, 10**12 - 1)}"
        customer = chance.randint(1, CUSTOMERS)
        orders.append((id, customer, chance.choice(_STATUSES), card, *times))
        for line, product in enumerate(chance.sample(products, chance.randint(1, 4)), 1):
            grams = chance.choice((50, 100, 250, 500))
            lines.append((id, line, product[0], grams, int(str(product[2])) * grams))
    yield "insert into orders values (?, ?, ?, ?, ?, ?)", orders
    yield "insert into order_lines values (?, ?, ?, ?, ?)", lines
