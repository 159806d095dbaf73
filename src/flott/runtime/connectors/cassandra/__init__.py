"""Cassandra: connections, prepared statements with timestamps of epochs, rows after the checkpoint."""
