"""Resolved expressions, and the compiler that turns them into calls of kernels over Arrow columns."""
