"""Elasticsearch and OpenSearch, by plain HTTP: requests, and what the answers mean. Driver and task side."""
