"""Databases before they are served: their URLs, a starter manifest, SQL for their owners."""
