"""Rewrites of the logical plan, one function each."""
