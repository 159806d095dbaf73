"""When the segments of a bucket become a part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flott.datastream.connectors.file_system._parts import DefaultRollingPolicy, RollingPolicy
from flott.runtime.connectors.files.names import SegmentName

#: Segments of a writer that is not ours are published after so many times the longest interval of the policy: their
#: job was cancelled and continued under another id, or it would have published them itself.
ABANDONED_AFTER_INTERVALS = 10


@dataclass(frozen=True)
class Segment:
    """A committed epoch's output, waiting."""

    name: SegmentName
    size_bytes: int


def is_due(policy: RollingPolicy, segments: Sequence[Segment], now_ms: int) -> bool:
    """Return whether the segments of one subtask and bucket, in order, are to be published now."""
    if not isinstance(policy, DefaultRollingPolicy):
        return True
    return (
        sum(segment.size_bytes for segment in segments) >= policy.part_size
        or now_ms - segments[0].name.time_ms >= policy.rollover_interval
        or now_ms - segments[-1].name.time_ms >= policy.inactivity_interval
    )


def is_abandoned(policy: RollingPolicy, segments: Sequence[Segment], now_ms: int) -> bool:
    """Return whether segments of another writer have been left behind."""
    default = policy if isinstance(policy, DefaultRollingPolicy) else DefaultRollingPolicy()
    longest_ms = max(default.rollover_interval, default.inactivity_interval)
    return now_ms - segments[-1].name.time_ms >= ABANDONED_AFTER_INTERVALS * longest_ms
