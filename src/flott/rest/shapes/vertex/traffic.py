"""What a subtask or vertex has read and written, and how long it was busy: Flink's IO metrics. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import NumberOrNaN, number_or_nan, whole
from flott.runtime.jobmanager.views.job_view import SubtaskView, Traffic

IoMetrics = TypedDict(
    "IoMetrics",
    {
        "read-bytes": int,
        "read-bytes-complete": bool,
        "write-bytes": int,
        "write-bytes-complete": bool,
        "read-records": int,
        "read-records-complete": bool,
        "write-records": int,
        "write-records-complete": bool,
        "accumulated-backpressured-time": int,
        "accumulated-idle-time": int,
        "accumulated-busy-time": NumberOrNaN,
    },
)

_NONE = Traffic()


def io_metrics(traffic: Traffic) -> IoMetrics:
    """Return the totals as Flink shows them. They are reported with every epoch, so they are always complete."""
    return {
        "read-bytes": traffic.bytes_in,
        "read-bytes-complete": True,
        "write-bytes": traffic.bytes_out,
        "write-bytes-complete": True,
        "read-records": traffic.records_in,
        "read-records-complete": True,
        "write-records": traffic.records_out,
        "write-records-complete": True,
        "accumulated-backpressured-time": whole(traffic.back_pressured_ms),
        "accumulated-idle-time": whole(traffic.idle_ms),
        "accumulated-busy-time": number_or_nan(float(traffic.busy_ms)),
    }


def total_traffic(subtasks: Iterable[SubtaskView], former: Traffic = _NONE) -> Traffic:
    """Return the totals of these subtasks, including those of former subtasks."""
    records_in, records_out = former.records_in, former.records_out
    bytes_in, bytes_out = former.bytes_in, former.bytes_out
    busy_ms, idle_ms, back_pressured_ms = former.busy_ms, former.idle_ms, former.back_pressured_ms
    for subtask in subtasks:
        one = subtask.traffic
        records_in += one.records_in
        records_out += one.records_out
        bytes_in += one.bytes_in
        bytes_out += one.bytes_out
        busy_ms += one.busy_ms
        idle_ms += one.idle_ms
        back_pressured_ms += one.back_pressured_ms
    return Traffic(records_in, records_out, bytes_in, bytes_out, busy_ms, idle_ms, back_pressured_ms)
