"""Addresses of schemas, tables and rows: paths, keys and page cursors."""
