"""The declared types of state: how files name them, and how saved values are converted when they change."""
