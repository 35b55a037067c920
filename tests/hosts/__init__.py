"""Replays of hosts on four sources: `python -m tests.hosts` writes docs/hosts.md."""
