"""Prompts: their list, their rendered messages, and completion of their arguments."""
