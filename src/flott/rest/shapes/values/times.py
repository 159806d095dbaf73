"""Times and durations of what has begun and may have ended. Pure."""

from __future__ import annotations

from flott.runtime.jobmanager.views.job_view import NEVER


def duration_ms(start_ms: int, end_ms: int, now_ms: int) -> int:
    """From the start to the end, or till now; -1 for what has not begun."""
    if start_ms == NEVER:
        return NEVER
    return max(0, (now_ms if end_ms == NEVER else end_ms) - start_ms)


def reached(time_ms: int | None) -> int:
    """A time in a table of states: 0 for one that was never reached."""
    return 0 if time_ms is None or time_ms == NEVER else time_ms
