"""Databases: tables, rows and declared queries as resources, read and never written."""
