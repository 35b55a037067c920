"""Matching and ranking of names and text, shared by providers and the catalog."""
