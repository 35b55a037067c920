"""Makes desk.db from desk.sql: `python make.py`."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

HERE = Path(__file__).parent


def make(file: Path = HERE / "desk.db") -> None:
    """Make the database, or put a new one in the place of the one that is there."""
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    connection = sqlite3.connect(new)
    try:
        connection.executescript((HERE / "desk.sql").read_text("utf-8"))
    finally:
        connection.close()
    new.replace(file)


if __name__ == "__main__":
    make()
