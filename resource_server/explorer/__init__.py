"""The explorer: pages on which people see what models are given."""
