"""The process of one job: how the JobManager starts it and talks to it, and what runs in it."""
