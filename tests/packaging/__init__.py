"""Packages of the project: what describes them, and tests of each as its users install it."""
