"""Flott's benchmark: the same work on Flott and its peers, side by side on one machine. Run `python -m bench`."""
