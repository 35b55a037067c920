"""Tools: the catalog and what providers add to it, for hosts whose model never sees a resource."""
