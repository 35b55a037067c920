"""The built-in providers; each is loaded when a manifest names it."""
