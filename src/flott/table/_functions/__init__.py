"""The function library: each function of Flink SQL with its signature and its kernel over Arrow columns."""
