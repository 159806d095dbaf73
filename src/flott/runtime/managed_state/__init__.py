"""Keyed state: key groups, encodings, tables, handles, timers and the files they are saved to. Task side."""
