"""The record of reads: one line of JSON for each request, chained by hashes."""
