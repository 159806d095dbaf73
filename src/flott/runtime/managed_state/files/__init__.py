"""State files: their bytes, the sequences they form, and how several become one. Driver and task side."""
