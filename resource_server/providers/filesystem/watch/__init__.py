"""The file watcher: from system events to resource changes."""
