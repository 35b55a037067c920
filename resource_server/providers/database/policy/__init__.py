"""Policy: which tables, columns, rows and values are exposed."""
