"""DuckDB databases, and data files that DuckDB reads as tables."""
