"""Object storage (S3 and what speaks like it): objects as documents, prefixes as collections."""
