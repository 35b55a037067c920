"""Documents of files and objects: which are exposed, and their bytes as text or in ranges."""
