"""Search in databases: names and row values."""
