"""Against a JobManager that runs. A package, so that its tests can share one and end it together."""
