"""Servers of sources: built from their manifests, and reloaded when these change."""
