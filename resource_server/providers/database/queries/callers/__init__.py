"""SQL of callers: the tool `query_database`, and what its statements may say."""
