"""Declared queries: SQL of the manifest, its parameters and its confinement."""
