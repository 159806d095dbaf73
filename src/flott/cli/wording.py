"""Numbers, sizes, durations and times in the words of a terminal."""

from __future__ import annotations

from datetime import datetime


def duration_text(milliseconds: float) -> str:
    """A duration for people: its two largest units."""
    seconds = int(milliseconds // 1000)
    if seconds < 60:
        return f"{milliseconds / 1000:.1f} s"
    units = [("d", seconds // 86400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60), ("s", seconds % 60)]
    first = next(index for index, (_, amount) in enumerate(units) if amount)
    return " ".join(f"{amount} {unit}" for unit, amount in units[first : first + 2])


def time_text(epoch_ms: int) -> str:
    """A moment in local time; a dash for one that never was."""
    if epoch_ms <= 0:
        return "-"
    return datetime.fromtimestamp(epoch_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
