"""Guarantees: the promises of README and docs/security.md, with the tests that prove each."""
