"""Every other database, by the dialect of SQLAlchemy that its user has installed."""
