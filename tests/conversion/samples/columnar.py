"""Parquet and Arrow documents."""

from __future__ import annotations

import base64
import functools
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import duckdb

from tests.conversion.facts import Cell, Fact, Ordered, Text

ROWS = 3000
"""Rows of `parquet`: several row groups."""
FEATHER = zlib.decompress(
    base64.b64decode(
        "eNrtVj1vE0EQnXVs5+Rc0EWykJEsEQVFpEACOkoHCckSQpg0RKl8mANbJolln5HcnahSpnRBwU+gpKAjBSVlypQ0SPwA"
        "xPFmd86cJxgkKGiy0nj27bydmZ3bD2/v7Dx8fJsoRWsWiALiViGfylQiDz00UwQmIA+/RfklMIg+G6LXkC6kDjkRW+N7"
        "mmLiWhX9mozBbP0vQfbDAd0C503KPFplzrrwkAbtQnjuMiQ6iIe9aERt8KfObyHI+eVWgrwMX4wj6E+WQ6Zh41Vtvst2"
        "BYGsj0qB+M/mc079aEInmPvNxfDZXs/lnvHj8PmI53wFb8vmb0o6H9a9ONrnfg2cluNVgpxPkrWGMdeWK+4qzKNsX4Xc"
        "Gw8PB9HNvfGw1+kCT50fT/vh/J+GE/tVPEhZxj+mP+u1ruo1ig87fXKxPVTIxc7Xrazq5tZZV+vs9OKJ6xdn47yfugVX"
        "M24+quN2lG890lLR+jkzNGs+RgK7vxznyLhYVakTzWK6OJdpcbsmekv0huiW6JrorrIfKz8Zvir6rbJn+LroU2U/VfmQ"
        "UQSj8hV8RXBT8ZuKP1D2RTjjT5X/d4qf4c3cWEXVn3LYKEz/CfvZ3th4UGs3XgEmJNfHSp63Ms8DTPY+vOfDdTcaHpz7"
        "LBkPMLFDwbn5tLkGdkvl483zAJMbj4hY6Bd+As53eP/ZlzYObqZ/s66CLsECntG8wjwPMAmf/IWff4jX7+fsqg6X+Cga"
        "uEnUvkzdO2H5Pm6Esr0lAsmjSHfkrGd39a4EHog+M/r7XLxlF2/Zn98y3j/b9j/SD9596SY="
    )
)
"""Two rows as pyarrow writes them, compressed by LZ4."""


def documents() -> Mapping[str, tuple[bytes, tuple[Fact, ...]]]:
    """Return documents and their facts by file name."""
    return {
        "orders.parquet": (parquet(), _PARQUET_FACTS),
        "cities.feather": (FEATHER, _FEATHER_FACTS),
    }


_PARQUET_FACTS = (
    Cell("customer 17", "amount", "1.70"),
    Cell(f"customer {ROWS}", "amount", f"{ROWS // 10}.00"),
    Cell("customer 3", "tags", '["a", "b"]'),
    Ordered(("customer 1 ", "customer 17 ", f"customer {ROWS} ")),
)
_FEATHER_FACTS = (
    Cell("Zürich", "stock", "17"),
    Cell("Zürich", "at", "2026-11-23T09:30:00+01:00"),
    Cell("Bern", "day", "2026-11-23"),
    Text("Bern"),
)


_SELECT = """
SELECT 'customer ' || i AS who, (i / 10)::DECIMAL(10, 2) AS amount, i AS number, i % 2 = 0 AS even,
    ['a', 'b'] AS tags, {'city': 'Zürich', 'zip': i} AS place, DATE '2026-11-23' AS day,
    TIMESTAMPTZ '2026-11-23 08:30:00+00' AS at, 'x'::BLOB AS bytes, NULL::INTEGER AS nothing,
    'nan'::DOUBLE AS odd
FROM range(1, ?) AS made(i) ORDER BY i"""


@functools.cache
def parquet() -> bytes:
    """Return a table of `ROWS` rows with values of many types."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made.parquet")
        made = duckdb.connect().sql(_SELECT, params=[ROWS + 1])
        made.write_parquet(str(path), row_group_size=2048)
        return path.read_bytes()
