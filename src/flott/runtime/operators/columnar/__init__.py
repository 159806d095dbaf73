"""Operators on columns: what tables and SQL run as. Task side."""
