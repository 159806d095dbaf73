"""Tables over connectors: one module for each connector that a table may name."""
