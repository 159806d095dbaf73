"""The files a job brings along: its own modules, Python files, requirements, archives. Client, driver and task."""
