"""Skills in a folder: directories with a `SKILL.md`."""
