"""The web server: uvicorn, TLS and connection limits."""
