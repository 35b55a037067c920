"""Transports: bytes in and out, and who may connect."""
