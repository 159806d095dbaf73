"""Responses about checkpoints. Pure."""
