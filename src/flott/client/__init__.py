"""What talks to a JobManager from outside: its REST client, programs and the jobs they hand over."""
