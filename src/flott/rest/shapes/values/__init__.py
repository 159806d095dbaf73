"""Values that many responses contain: numbers, times, statistics, hidden secrets. Pure."""
