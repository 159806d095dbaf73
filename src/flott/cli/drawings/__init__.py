"""Draws jobs and their graphs as text and pictures for a terminal."""
