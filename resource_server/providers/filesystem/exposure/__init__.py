"""Exposure: which files of a folder are served."""
