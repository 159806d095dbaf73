"""Runs a user's program from the command line: on a session, or as an application with its own JobManager."""
