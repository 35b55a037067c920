"""The catalog: all mounts as one space of URIs."""
