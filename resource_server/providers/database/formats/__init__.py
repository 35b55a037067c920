"""Representations of rows and schemas: JSON, CSV and Markdown."""
