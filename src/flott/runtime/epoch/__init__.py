"""One epoch as data, and the body of its tasks. No Spark: a runner carries rows between stages."""
