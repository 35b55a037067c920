"""The ASGI application: requests, sessions, streams and responses."""
