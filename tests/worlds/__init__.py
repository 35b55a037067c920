"""Worlds: generated folders, databases, manifests and clients, and the properties they prove."""
