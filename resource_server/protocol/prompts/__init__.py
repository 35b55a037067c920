"""Prompts: what there are, their messages with arguments filled in, and what arguments may be."""
