"""The search index of a folder: which documents cannot match, kept current by a thread."""
