"""Several processes that serve on one socket, as one server."""
