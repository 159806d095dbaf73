"""One module per engine. Each runs in a process of its own and prints one JSON line; none imports another."""
