"""Tools: the catalog and the providers' own, for hosts whose model sees no resources."""
