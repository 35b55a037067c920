"""Guarantees: the promises of README, docs/security.md and docs/databases.md, with their tests."""
