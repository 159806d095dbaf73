"""Responses about a job as a whole. Pure."""
