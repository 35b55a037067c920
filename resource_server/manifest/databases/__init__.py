"""Databases before they are served: their URLs, a manifest to begin with, SQL for their owners."""
