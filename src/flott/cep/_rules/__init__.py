"""Rules as data: patterns in JSON, with conditions in a small language of expressions."""
