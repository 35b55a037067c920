"""The built-in converters, one module a family of formats; they run in workers only."""
