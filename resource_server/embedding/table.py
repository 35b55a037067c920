"""Rows in memory, as other libraries take them: Arrow, pandas, or mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec


class TableRows(msgspec.Struct, frozen=True):
    """Rows of a table or a query. A sequence of mappings, each from column to value.

    Values are those of JSON: dates and times are ISO 8601, decimals and bytes are text.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[str] = ()
    is_complete: bool = True
    """Whether these are all rows."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self.rows[index]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return [row.get(name) for row in self.rows]

    def arrow(self) -> Any:
        """Return a `pyarrow.Table`.

        Raises:
            ImportError: pyarrow is not installed.
        """
        pyarrow: Any = import_module("pyarrow")
        return pyarrow.table({name: self.column(name) for name in self.columns})

    def pandas(self) -> Any:
        """Return a `pandas.DataFrame`.

        Raises:
            ImportError: pandas is not installed.
        """
        pandas: Any = import_module("pandas")
        return pandas.DataFrame({name: self.column(name) for name in self.columns})


def typed_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], kinds: Mapping[str, str]
) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
    """Return rows with integers as such, which JSON has as text if they are large, and columns."""
    columns = [*names] or [*dict.fromkeys(name for row in rows for name in row)]
    integers = [name for name in columns if kinds.get(name) == "integer"]
    if not integers:
        return rows, columns
    typed = [{**row, **{name: _integer(row.get(name)) for name in integers}} for row in rows]
    return typed, columns


def _integer(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    return value
