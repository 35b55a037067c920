"""Files and databases as MCP resources, from one YAML manifest."""

__version__ = "0.1.0"
