"""Ratios to floors and peers, taken in one run: `python -m tests.benchmarks [name]`."""
