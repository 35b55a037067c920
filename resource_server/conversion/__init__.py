"""Conversion: other formats of documents, made by worker processes that hold nothing but them."""
