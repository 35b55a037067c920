"""The file watcher: system events to resource changes."""
