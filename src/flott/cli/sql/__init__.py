"""The SQL shell: reads statements from a terminal, a file or the command line, and shows their results."""
