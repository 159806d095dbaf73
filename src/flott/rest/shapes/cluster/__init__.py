"""Responses about the cluster: the JobManager and its task managers. Pure."""
