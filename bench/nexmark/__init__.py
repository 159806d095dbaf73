"""Nexmark: an auction site's events, and the queries of the benchmark over them."""
