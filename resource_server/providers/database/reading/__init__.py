"""Reads of tables and rows."""
