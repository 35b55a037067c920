"""Buckets of object storage (S3 and what speaks like it): their keys, and bytes of objects."""
