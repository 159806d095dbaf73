"""Responses about the vertices of a job and their subtasks. Pure."""
