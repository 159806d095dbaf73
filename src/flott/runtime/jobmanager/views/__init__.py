"""What is known of a job, as values that REST, the command line and reporters read."""
