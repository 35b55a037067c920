"""A declared query as a syntax tree, in which other sources take the place of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from resource_server.providers.database.queries.callers.sql_tree import (
    SqlTree,
    definition,
    name_columns,
)
from resource_server.providers.database.queries.declared_functions import CalledFunction

TablePath: TypeAlias = tuple[str, ...]
"""Name of a table as it is written: perhaps a database, perhaps a schema, then the name."""
_POSTGRESQL_NAME_BYTES: Final = 63
"""Maximum bytes of an identifier; longer ones are truncated."""


class QueryTree(SqlTree):
    """One SELECT of the manifest. See `SqlTree`."""

    _takes_one_spelling = False

    def tables(self) -> frozenset[TablePath]:
        """Return the tables that it reads, common table expressions excepted."""
        return frozenset([self._path(table) for table in self._real_tables(self._tree)])

    def functions(self) -> frozenset[CalledFunction]:
        """Return the functions that it calls, but those with a syntax of their own."""
        found = set[CalledFunction]()
        for call in self._tree.find_all(exp.Anonymous):
            around = call.parent
            schema = around.this.name if isinstance(around, exp.Dot) else ""
            found.add(CalledFunction(schema.lower(), call.name))
        for column in self._tree.find_all(exp.Column, exp.Dot):
            name = column.expression if isinstance(column, exp.Dot) else column.this
            is_of_row = isinstance(column, exp.Dot) or column.table
            if is_of_row and isinstance(name, exp.Identifier):
                found.add(CalledFunction("", name.name, is_attribute=True))
        return frozenset(found)

    def definitions(self) -> frozenset[str]:
        """Return the names of its common table expressions."""
        return frozenset(
            [self._folded(cte.args["alias"].this) for cte in self._tree.find_all(exp.CTE)]
        )

    def replaced(self, sources: Mapping[TablePath, str]) -> tuple[str, tuple[str, ...]]:
        """Return SQL that reads other sources, and its parameters in placeholder order.

        Args:
            sources: what is read in the place of tables: subqueries or quoted names.

        Raises:
            ValueError: it uses a table in a way that these sources do not allow; for its author.
        """
        tree = self._tree.copy()
        texts: list[str] = []
        for table in self._real_tables(tree):
            source = sources.get(self._path(table))
            if source is None:
                continue
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            for part in ("db", "catalog", "only"):
                table.set(part, None)
            table.set("this", exp.to_identifier(f"{self._own}t{len(texts)}", quoted=True))
            texts.append(source)
        if self._engine != "postgresql":
            name_columns(tree)
        try:
            generator = self._dialect.generator(comments=False, unsupported_level=ErrorLevel.RAISE)
            text = generator.generate(tree, copy=False)
        except (SqlglotError, RecursionError):
            raise ValueError("has syntax that this database lacks") from None
        numbered = self._engine == "postgresql"
        order: list[str] = []

        def placeholder(found: re.Match[str]) -> str:
            name = self._used[int(found[1])]
            if not (numbered and name in order):
                order.append(name)
            return f"${order.index(name) + 1}" if numbered else "%s"

        if not numbered:
            text = text.replace("%", "%%")
            texts = [each.replace("%", "%%") for each in texts]
        text = re.sub(rf'["`]{self._own}(\d+)["`]', placeholder, text)
        # Last, as they have literals with any text.
        text = re.sub(rf'["`]{self._own}t(\d+)["`]', lambda found: texts[int(found[1])], text)
        return text, tuple(order)

    def _real_tables(self, tree: exp.Expr) -> list[exp.Table]:
        return [
            table
            for table in tree.find_all(exp.Table)
            if isinstance(table.this, exp.Identifier) and definition(table, self._folded) is None
        ]

    def _path(self, table: exp.Table) -> TablePath:
        return tuple(
            [self._folded(part) for part in table.parts if isinstance(part, exp.Identifier)]
        )

    def _folded(self, name: exp.Identifier) -> str:
        """Return a name as the engine compares it."""
        text = name.name
        if self._engine != "postgresql":
            return text
        if not name.quoted:
            text = "".join([c.lower() if c.isascii() else c for c in text])
        return text.encode(errors="replace")[:_POSTGRESQL_NAME_BYTES].decode(errors="ignore")
