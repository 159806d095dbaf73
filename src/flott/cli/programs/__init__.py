"""Running a user's program from the command line: on a session, or with a JobManager of its own."""
