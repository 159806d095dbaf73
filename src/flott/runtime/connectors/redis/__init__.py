"""Redis: commands that a script executes once, commands that are sent at once, and lookups. Driver and task side."""
