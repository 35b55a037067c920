"""Tools of the running process: tasks, caches, rates, option types, clocks, file events."""
