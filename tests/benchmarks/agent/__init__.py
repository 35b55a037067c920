"""Everyday questions of agents, and what this server and its peers give a model for them."""
