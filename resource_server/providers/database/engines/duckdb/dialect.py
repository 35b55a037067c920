"""The SQL dialect of DuckDB, for compiling: PostgreSQL's, with every name in quotes."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects.postgresql.base import PGDialect, PGIdentifierPreparer


class _QuotedNames(PGIdentifierPreparer):
    def quote(self, ident: str, force: Any = None) -> str:
        """Return a name in quotes: the reserved words differ by version."""
        return self.quote_identifier(ident)


class DuckdbDialect(PGDialect):
    """Compiles and quotes statements; the worker runs them."""

    name = "duckdb"
    default_paramstyle = "numeric_dollar"
    supports_statement_cache = True
    preparer = _QuotedNames
