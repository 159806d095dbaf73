"""The JobManager: takes jobs in, keeps them, runs each in a process of its own, all on one Spark application."""
