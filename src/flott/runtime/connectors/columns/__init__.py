"""Messages and files as columns of a table, and back. Task side. Everything here needs pyarrow and numpy."""
