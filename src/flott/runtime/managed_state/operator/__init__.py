"""Operator state: lists and maps that belong to a subtask and to no key."""
