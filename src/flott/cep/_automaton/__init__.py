"""Patterns as automata: compiled, executed, explained. Pure: no input or output, no state of a job."""
