"""Batch mode on Spark: an optimized logical plan as the text of a Spark SQL query."""
