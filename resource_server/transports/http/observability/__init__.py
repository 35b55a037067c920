"""Health, metrics, traces and the access log."""
