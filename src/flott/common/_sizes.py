"""Formats sizes."""

from __future__ import annotations


def size_text(size: float) -> str:
    """Return a number of bytes as text with a unit."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
