"""The library of aggregate functions: types of results, accumulators in columns, and what the reference says."""
