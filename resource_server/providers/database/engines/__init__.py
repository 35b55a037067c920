"""Database engines: connections, reflection and statements for each dialect."""
